//! Copies within the host's memory, on several threads.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::transfer::plan::copy_threads;
use crate::buffer::transfer::streaming;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::DeviceState;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many of the threads a copy within the host's memory is worth.
pub(crate) fn threads_on_host(bytes: usize, threads: usize) -> usize {
    match bytes {
        ..streaming::FROM => 1,
        _ => copy_threads(bytes, threads),
    }
}

/// Copies within the host's memory, on several threads if that pays and nobody else uses them now.
///
/// # Safety
///
/// Both are valid for `bytes`, do not overlap, and nobody else uses them meanwhile.
pub(crate) unsafe fn copy_on_host(
    device: &DeviceState,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    let ring = match bytes {
        ..streaming::FROM => None,
        _ => Transfers::of(device).take(),
    };
    let Some(ring) = ring else {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    let threads = threads_on_host(bytes, ring.threads());
    let (memory, next) = (SendMemory(from, to), AtomicUsize::new(0));
    ring.run(threads, |_| {
        let SendMemory(from, to) = { &memory };
        loop {
            let start = next.fetch_add(HOST_PIECE, Ordering::Relaxed);
            if start >= bytes {
                return;
            }
            // SAFETY: within both; each piece is taken once.
            unsafe {
                streaming::copy(
                    from.add(start),
                    to.add(start),
                    HOST_PIECE.min(bytes - start),
                )
            };
        }
    });
}

/// What one thread copies at a time within the host's memory.
const HOST_PIECE: usize = 256 << 10;

/// Where to copy from and to.
struct SendMemory(*const u8, *mut u8);

// SAFETY: who makes one promises that the memory may be used meanwhile, on whatever thread.
unsafe impl Sync for SendMemory {}
