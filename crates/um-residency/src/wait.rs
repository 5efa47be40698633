//! The wait for guards of other threads.

use parking_lot::MutexGuard;

use crate::error::{Error, Result};
use crate::held::guards_of_this_thread;
use crate::state::{Shared, State};

/// Waits until a guard is dropped. A thread with guards never waits, so threads do not wait for each other.
pub(crate) fn wait(
    shared: &Shared,
    state: &mut MutexGuard<'_, State>,
    call: &'static str,
) -> Result<()> {
    let held = guards_of_this_thread();
    if held > 0 {
        return Err(Error::WouldDeadlock { call, held });
    }
    state.counters.stats.waits += 1;
    shared.released.wait(state);
    Ok(())
}
