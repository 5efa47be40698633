//! The wait for guards of other threads, and for pins.

use std::time::Duration;

use um_backend::cuda_um::process_end;

use crate::error::{Error, Result};
use crate::state::{Guarded, Shared};
use crate::thread::guards_of_this_thread;

/// How long a wait lasts before it looks at the end of the process.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// A call that may wait.
pub(crate) struct Wait {
    call: &'static str,
    has_waited: bool,
    /// True if the process ended at the last wait, too.
    has_looked_again: bool,
    /// The pins that must have ended before a thread with guards is refused.
    unpinned: Option<u64>,
}

impl Wait {
    pub(crate) fn new(call: &'static str) -> Self {
        Self {
            call,
            has_waited: false,
            has_looked_again: false,
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
            state.stats.waits += 1;
        }
        // A thread that the end of the process has stopped never drops its guards.
        if process_end::is_ending() && std::mem::replace(&mut self.has_looked_again, true) {
            return Err(process_end::error(self.call).into());
        }
        state.wait(&shared.released, LOOKS_AGAIN);
        Ok(())
    }
}
