//! Waiting and copying without blocking the executor's thread for long, on any executor.

use crate::buffer::copy;
use crate::buffer::view::{View, ViewMut};
use crate::context::tracker::{Access, Use};
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::unblock::unblock;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// Calls `attempt` until its result is not [`Error::Busy`], and awaits the uses of the buffer between the calls.
///
/// Threads of `unblock` wait, each with handles that it owns: a future that is dropped leaves only that wait behind. No lock or guard is
/// held across an await.
pub(super) async fn until_free<G>(
    raw: &Allocation,
    access: Access,
    mut attempt: impl FnMut() -> Result<G>,
) -> Result<G> {
    loop {
        match attempt() {
            Err(Error::Busy { .. }) => {}
            result => return result,
        }
        unblock(raw.wait_elsewhere(access)).await?;
    }
}

/// Bytes that are copied between two yields to the executor.
const PIECE: usize = 4 << 20;

/// Copies `source`, which is as long as the view. The future is ready when all bytes have arrived.
pub(super) async fn copy_from_host(mut target: ViewMut<'_, u8>, source: &[u8]) -> Result<()> {
    let raw = target.raw;
    raw.check_write()?;
    in_pieces(raw, Access::Write, source.len(), |piece| {
        copy::from_host(target.slice_mut(piece.clone())?, &source[piece])
    })
    .await?;
    uses_done(raw, Access::Write, None).await
}

/// Copies to `target`, which is as long as the view.
pub(super) async fn copy_to_host(source: View<'_, u8>, target: &mut [u8]) -> Result<()> {
    in_pieces(source.raw, Access::Read, target.len(), |piece| {
        copy::to_host(source.slice(piece.clone())?, &mut target[piece])
    })
    .await
}

/// Copies piece by piece, and yields to the executor after each.
async fn in_pieces(
    raw: &Allocation,
    access: Access,
    total: usize,
    mut copy: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    // The number of the last piece on the copy stream.
    let mut own = None;
    for start in (0..total).step_by(PIECE) {
        let piece = async {
            let last = last_of_copies(raw)?;
            let seq = last.as_ref().map(|used| used.seq);
            // What the piece would wait for: the buffer's uses, and work that others enqueued on the copy stream after the last piece.
            if own.is_none() || own != seq {
                uses_done(raw, access, last).await?;
            }
            copy(start..total.min(start + PIECE))?;
            own = last_of_copies(raw)?.map(|used| used.seq);
            Ok(())
        };
        piece.await.map_err(|error| cut(error, start, total))?;
        let_others_run().await;
    }
    Ok(())
}

/// Returns the last use of the stream on which the buffer's copies run; `None` for host memory, whose copies use no stream.
fn last_of_copies(raw: &Allocation) -> Result<Option<Use>> {
    if raw.is_host_memory() {
        return Ok(None);
    }
    let stream = Arc::clone(raw.device().own_stream()?.inner());
    let seq = stream.submitted();
    Ok(Some(Use { stream, seq }))
}

/// Awaits the uses of the buffer, and one other use.
async fn uses_done(raw: &Allocation, access: Access, other: Option<Use>) -> Result<()> {
    let mut uses = raw.in_flight.before(access);
    uses.extend(other);
    for used in &uses {
        if !used.is_done()? {
            return unblock(move || Use::wait_for_each(&uses)).await;
        }
    }
    Ok(())
}

/// Converts the error of a piece to the error of the whole copy.
fn cut(error: Error, start: usize, total_bytes: usize) -> Error {
    match error {
        Error::Incomplete {
            copied_bytes,
            cause,
            ..
        } => Error::Incomplete {
            copied_bytes: start + copied_bytes,
            total_bytes,
            cause,
        },
        error if start == 0 => error,
        error => Error::Incomplete {
            copied_bytes: start,
            total_bytes,
            cause: Box::new(error),
        },
    }
}

/// Yields once to the executor.
async fn let_others_run() {
    let mut had_turn = false;
    poll_fn(|context| match std::mem::replace(&mut had_turn, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
