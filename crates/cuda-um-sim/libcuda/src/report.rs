//! Reports to C code: functions of `include/cuda_um_sim.h`.

use std::ffi::c_char;
use std::fmt::Debug;

use crate::start::sim;

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaUmSimMisuse(text: *mut c_char, bytes: usize) -> usize {
    let found = sim().map(|sim| sim.misuse()).unwrap_or_default();
    // SAFETY: the caller vouches for so much room.
    unsafe { report(&found, text, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaUmSimLeaks(text: *mut c_char, bytes: usize) -> usize {
    let found = sim().map(|sim| sim.leaks()).unwrap_or_default();
    // SAFETY: the caller vouches for so much room.
    unsafe { report(&found, text, bytes) }
}

/// # Safety
/// There are `bytes` writable bytes at `text`, or `bytes` is 0.
unsafe fn report(found: &[impl Debug], text: *mut c_char, bytes: usize) -> usize {
    let lines: String = found.iter().map(|one| format!("{one:x?}\n")).collect();
    if let Some(room) = bytes.checked_sub(1) {
        let len = lines.len().min(room);
        // SAFETY: `len` bytes and the NUL are at most `bytes`.
        unsafe {
            std::ptr::copy_nonoverlapping(lines.as_ptr(), text.cast(), len);
            text.add(len).write(0);
        }
    }
    found.len()
}
