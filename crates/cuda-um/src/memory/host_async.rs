//! Waiting for a buffer, and copying, without keeping the thread for long, on any executor.

use super::copy;
use super::in_flight::{Access, Use};
use super::raw::RawBuffer;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::task::Poll;

/// Returns once `attempt` no longer says that the buffer is busy.
///
/// The waiting is done on the threads of `blocking`, with handles of their own: when the future is dropped, nothing is left behind
/// but that wait. Nothing is held across an await.
pub(super) async fn until_free<G>(
    raw: &RawBuffer,
    access: Access,
    mut attempt: impl FnMut() -> Result<G>,
) -> Result<G> {
    loop {
        match attempt() {
            Err(Error::Busy { .. }) => {}
            result => return result,
        }
        let uses = raw.in_flight.before(access);
        let gate = raw.gate().map(Arc::clone);
        blocking::unblock(move || {
            uses.iter().try_for_each(Use::wait)?;
            gate.map_or(Ok(()), |gate| gate.wait())
        })
        .await?;
    }
}

/// Copied between two chances for other tasks.
const PIECE: usize = 4 << 20;

/// Copies `source`, which is as long as the buffer; ready when all has arrived.
pub(super) async fn copy_from_host(target: &mut RawBuffer, source: &[u8]) -> Result<()> {
    for (index, piece) in source.chunks(PIECE).enumerate() {
        let start = index * PIECE;
        copy::from_host(target, start, piece).map_err(|error| cut(error, start, source.len()))?;
        let_others_run().await;
    }
    settled(target, Access::Write).await
}

/// Copies to `target`, which is as long as the buffer.
pub(super) async fn copy_to_host(source: &RawBuffer, target: &mut [u8]) -> Result<()> {
    settled(source, Access::Read).await?;
    let total = target.len();
    for (index, piece) in target.chunks_mut(PIECE).enumerate() {
        let start = index * PIECE;
        copy::to_host(source, start, piece).map_err(|error| cut(error, start, total))?;
        let_others_run().await;
    }
    Ok(())
}

/// Awaits the buffer's work.
async fn settled(raw: &RawBuffer, access: Access) -> Result<()> {
    raw.device().api().origin.check("access by the host")?;
    let uses = raw.in_flight.before(access);
    for used in &uses {
        if !used.is_done()? {
            return blocking::unblock(move || uses.iter().try_for_each(Use::wait)).await;
        }
    }
    Ok(())
}

/// The error of a piece, as that of the whole.
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

/// Gives the executor a turn.
async fn let_others_run() {
    let mut had_turn = false;
    std::future::poll_fn(|context| {
        if had_turn {
            return Poll::Ready(());
        }
        had_turn = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
