//! The wait for guards of other threads.

use std::thread;

use parking_lot::MutexGuard;

use crate::error::{Error, Result};
use crate::state::{Shared, State};

/// Waits until a guard is dropped. A thread with guards never waits, so threads do not wait for each other.
pub(crate) fn wait(
    shared: &Shared,
    state: &mut MutexGuard<'_, State>,
    call: &'static str,
) -> Result<()> {
    if let Some(&held) = state.held.get(&thread::current().id()) {
        return Err(Error::WouldDeadlock { call, held });
    }
    state.counters.stats.waits += 1;
    shared.released.wait(state);
    Ok(())
}
