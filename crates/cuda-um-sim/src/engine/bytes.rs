//! Copies and sets bytes, through device views or in memory of the caller.
// A copy engine works on raw memory.
#![allow(unsafe_code)]

/// Copies `bytes` bytes; both ranges must be valid for as long as the copy runs.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes: addresses of the device view, checked against an allocation, or
/// memory that the caller of the CUDA function vouches for.
pub(crate) unsafe fn copy(to: usize, from: usize, bytes: usize) {
    // SAFETY: by this function's contract. The ranges may overlap: `copy` is a memmove.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

/// Sets `count` elements of `width` bytes (1, 2 or 4) to the low bytes of `value`.
///
/// # Safety
/// `to` is writable for `count * width` bytes, as for [`copy`].
pub(crate) unsafe fn set(to: usize, value: u32, width: usize, count: usize) {
    let total = count * width;
    if total == 0 {
        return;
    }
    // SAFETY: by this function's contract; bytes have no alignment.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, total) };
    let mut done = width;
    bytes[..done].copy_from_slice(&value.to_le_bytes()[..done]);
    // Each step copies all that is done: that is faster than one element at a time.
    while done < total {
        let more = done.min(total - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}
