//! What ThreadSanitizer is told: that a device touches memory, at the host's address of it.
//!
//! By itself it sees a device's touch at the address of the device view, and so no race between a device and the host. Only
//! `cargo xtask sanitize thread` sets `cfg(thread_sanitizer)`; in every other build nothing is told.
// The sanitizer's runtime is called by its C names.
#![allow(unsafe_code)]

#[cfg(thread_sanitizer)]
unsafe extern "C" {
    fn __tsan_read_range(address: *const u8, bytes: usize);
    fn __tsan_write_range(address: *const u8, bytes: usize);
}

/// A device is about to read or write memory that the host has at this address.
#[cfg(thread_sanitizer)]
pub(crate) fn device_touches(address: usize, bytes: usize, write: bool) {
    let address = address as *const u8;
    // SAFETY: both note the touch, and read and write nothing at the address.
    unsafe {
        match write {
            true => __tsan_write_range(address, bytes),
            false => __tsan_read_range(address, bytes),
        }
    }
}

/// Nobody is told.
#[cfg(not(thread_sanitizer))]
pub(crate) fn device_touches(_address: usize, _bytes: usize, _write: bool) {}
