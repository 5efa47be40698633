//! Announced working sets.

use std::sync::Arc;

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::request::WorkingSet;
use crate::set::{Requests, check};

impl Arena {
    /// Announces a later working set. Announced buffers stay in the arena rather than others, and come before their working set asks for
    /// them if there is room. Announce sets in the order of their use; a set that differs from the announced ones is granted, too.
    ///
    /// # Errors
    /// The errors of [`working_set`](crate::working_set) before any transfer. [`Error::Arenas`] also for buffers of another arena.
    pub fn announce<'a>(&self, set: &impl WorkingSet<'a>) -> Result<()> {
        let mut requests = Requests::default();
        set.request(&mut requests)?;
        let shared = requests.shared()?;
        if !Arc::ptr_eq(shared, &self.shared) {
            let found = "buffers of another arena";
            return Err(Error::Arenas { found });
        }
        shared.check_process("announce")?;
        let mut state = shared.state.lock();
        check(shared, &state, &requests.list)?;
        state.announce(&requests.list);
        Ok(())
    }

    /// Forgets the announced sets.
    pub fn forget_announced(&self) {
        if self.shared.check_process("forget_announced").is_ok() {
            self.shared.state.lock().forget_announced();
        }
    }
}
