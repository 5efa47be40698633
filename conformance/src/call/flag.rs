//! A word that the host and a kernel share while the kernel runs.

use std::sync::atomic::{AtomicU32, Ordering};

/// Reads a word that another side may be writing.
pub(crate) fn load(word: &u32) -> u32 {
    // SAFETY: a live, aligned word; every side uses single atomic accesses.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut()) }.load(Ordering::Acquire)
}

/// # Safety
/// `word` is live and aligned, and every side accesses it atomically while several may.
pub(super) unsafe fn store(word: *mut u32, value: u32) {
    // SAFETY: required of the caller.
    unsafe { AtomicU32::from_ptr(word) }.store(value, Ordering::Release);
}
