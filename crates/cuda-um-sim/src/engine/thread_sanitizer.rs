//! Reports touches by devices to ThreadSanitizer, at the host's address of the memory.
//!
//! Without the report it sees such a touch at the address of the device view, and therefore no race between a device and the host. Only
//! `cargo xtask sanitize thread` sets `cfg(thread_sanitizer)`; every other build reports nothing.
// The sanitizer's runtime is called by its C names.
#![allow(unsafe_code)]

#[cfg(thread_sanitizer)]
unsafe extern "C" {
    fn __tsan_read_range(address: *const u8, bytes: usize);
    fn __tsan_write_range(address: *const u8, bytes: usize);
    fn __tsan_release(address: *const u8);
}

/// A device is about to read or write memory that the host has at this address.
#[cfg(thread_sanitizer)]
pub(crate) fn device_touches(address: usize, bytes: usize, write: bool) {
    let address = address as *const u8;
    // SAFETY: both functions record the touch, and do not read or write memory at the address.
    unsafe {
        match write {
            true => __tsan_write_range(address, bytes),
            false => __tsan_read_range(address, bytes),
        }
    }
}

/// A device is about to write a value that the host polls at this address.
#[cfg(thread_sanitizer)]
pub(crate) fn device_releases(address: usize) {
    // SAFETY: records the release, and does not access memory at the address.
    unsafe { __tsan_release(address as *const u8) }
}

/// Without ThreadSanitizer there is nothing to report.
#[cfg(not(thread_sanitizer))]
pub(crate) fn device_touches(_address: usize, _bytes: usize, _write: bool) {}

/// As above.
#[cfg(not(thread_sanitizer))]
pub(crate) fn device_releases(_address: usize) {}
