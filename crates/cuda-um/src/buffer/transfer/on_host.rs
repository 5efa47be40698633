//! Copies within host memory, on several threads.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::transfer::job::SharedAddress;
use crate::buffer::transfer::plan::threads_on_host;
use crate::buffer::transfer::streaming;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::DeviceState;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one thread copies at a time.
const PIECE: usize = 256 << 10;

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
    let turn = match bytes {
        ..streaming::FROM => None,
        _ => Transfers::of(device).take(),
    };
    let Some(turn) = turn else {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    let (ends, next) = (
        [from.cast_mut(), to].map(SharedAddress),
        AtomicUsize::new(0),
    );
    let threads = threads_on_host(bytes, turn.options.threads);
    turn.workers().run(threads, &|_| {
        let [from, to] = { &ends }.each_ref().map(|end| end.0);
        loop {
            // Relaxed: the numbers need only differ; the lock of the workers orders the copies before the end of `run`.
            let start = next.fetch_add(PIECE, Ordering::Relaxed);
            if start >= bytes {
                return;
            }
            let piece = PIECE.min(bytes - start);
            // SAFETY: the piece is within both ranges; only one thread takes each piece.
            unsafe { streaming::copy(from.add(start), to.add(start), piece) };
        }
    });
}
