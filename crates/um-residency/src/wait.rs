//! The wait for guards of other threads, and for pins.

use crate::error::{Error, Result};
use crate::state::{Guarded, Shared};
use crate::thread::guards_of_this_thread;

/// A call that may wait.
pub(crate) struct Wait {
    call: &'static str,
    has_waited: bool,
    /// The pins that must have ended before a thread with guards is refused.
    unpinned: Option<u64>,
}

impl Wait {
    pub(crate) fn new(call: &'static str) -> Self {
        Self {
            call,
            has_waited: false,
            unpinned: None,
        }
    }

    /// Waits until a guard is dropped, or a pin ends. A thread with guards never waits for those of others, so threads do not wait for each
    /// other; it waits for the pins that there are, which end by themselves.
    pub(crate) fn wait(&mut self, shared: &Shared, state: &mut Guarded<'_>) -> Result<()> {
        let held = guards_of_this_thread();
        if held > 0 {
            let all = state.unpinned + state.pins as u64;
            if state.unpinned >= *self.unpinned.get_or_insert(all) {
                let call = self.call;
                return Err(Error::WouldDeadlock { call, held });
            }
        }
        if !std::mem::replace(&mut self.has_waited, true) {
            state.counters.stats.waits += 1;
        }
        state.wait(&shared.released);
        Ok(())
    }
}
