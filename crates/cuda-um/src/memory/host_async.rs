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
        let (gate, id) = (raw.gate().map(Arc::clone), raw.id());
        blocking::unblock(move || {
            uses.iter().try_for_each(Use::wait)?;
            // Waits for the devices that must be idle, and lets them go again: the next attempt closes the gate for good.
            gate.map(|gate| gate.close(id)).transpose().map(drop)
        })
        .await?;
    }
}
