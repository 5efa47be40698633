//! Waiting for a buffer without blocking the thread, on any executor.

use super::in_flight::{Access, Use};
use super::raw::RawBuffer;
use crate::error::{Error, Result};
use std::sync::Arc;

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
