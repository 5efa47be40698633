//! One small copy through a piece of pinned memory.
#![allow(unsafe_code, reason = "copies by address")]

use crate::buffer::transfer::request::{Direction, Host, Staged};
use crate::buffer::transfer::transfers::Transfers;
use crate::context::enqueue::enqueue;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::error::Result;

/// Copies on the stream, as a use of `part`. Returns `None`, and does nothing, if the copy is large, or a closure produces the
/// bytes. When this returns, nothing uses the host's memory; a copy to the device may still run on the stream.
///
/// # Safety
///
/// Both sides are valid for `copy.bytes`, and borrowed as the direction requires: the target exclusively. `part` is the device's side.
pub(crate) unsafe fn through_piece(
    stream: &Stream,
    part: &Part<'_>,
    copy: Staged<'_>,
) -> Option<Result<()>> {
    let Host::Memory(host) = copy.host else {
        return None;
    };
    let (inner, state) = (stream.inner(), stream.inner().device());
    let mut turn = Transfers::of(state).pieces.take(state, inner, copy.bytes)?;
    let enqueue_copy = |to: *mut u8, from: *const u8| {
        enqueue(stream, std::slice::from_ref(part), || {
            let (ordinal, raw) = (inner.ordinal(), inner.raw());
            // SAFETY: the caller's promise for the device's side; the piece keeps its space until the copy is done.
            unsafe {
                inner
                    .api()
                    .memcpy_async(ordinal, to, from, copy.bytes, copy.kind, raw)
            }
        })
    };
    let mut run = || {
        let space = turn.space(copy.bytes)?;
        match copy.direction {
            Direction::ToDevice => {
                // SAFETY: the caller's promise; no copy uses the space.
                unsafe { space.copy_from_nonoverlapping(host, copy.bytes) };
                let enqueued = enqueue_copy(copy.device, space);
                turn.enqueued();
                enqueued
            }
            Direction::ToHost => {
                let enqueued = enqueue_copy(space, copy.device);
                turn.enqueued();
                enqueued.and_then(|()| turn.wait())?;
                // SAFETY: the caller's promise; the copy to the space is done.
                unsafe { host.copy_from_nonoverlapping(space, copy.bytes) };
                Ok(())
            }
        }
    };
    Some(run())
}
