//! Copies within host memory, on several threads.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::transfer::plan::copy_threads;
use crate::buffer::transfer::streaming;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::DeviceState;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the number of threads, at most `threads`, that make a copy within host memory faster.
pub(super) fn threads_on_host(bytes: usize, threads: usize) -> usize {
    match bytes {
        ..streaming::FROM => 1,
        // A second thread saves half of the time here, because pieces cost nothing.
        _ => copy_threads(bytes, threads).max(threads.min(2)),
    }
}

/// Copies within host memory. Uses several threads if that is faster and no other copy uses them now.
///
/// # Safety
///
/// Both ranges are valid for `bytes`, do not overlap, and nothing else uses them until this returns.
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
            // Relaxed: the numbers need only differ; the lock of the workers orders the copies before the end of `run`.
            let start = next.fetch_add(HOST_PIECE, Ordering::Relaxed);
            if start >= bytes {
                return;
            }
            // SAFETY: the piece is within both ranges; only one thread takes each piece.
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

/// Bytes that one thread copies at a time within host memory.
const HOST_PIECE: usize = 256 << 10;

/// Source and target of the copy.
struct SendMemory(*const u8, *mut u8);

// SAFETY: the code that makes this value promises that any thread may use the memory meanwhile.
unsafe impl Sync for SendMemory {}
