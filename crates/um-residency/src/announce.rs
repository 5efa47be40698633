//! Announced working sets.

use crate::arena::Arena;
use crate::error::Result;
use crate::request::WorkingSet;
use crate::set::{Requests, check};

impl Arena {
    /// Announces a later working set. Announced buffers stay in the arena rather than others, and come before their working set asks for
    /// them if there is room. Announce sets in the order of their use; a set that differs from the announced ones is granted, too.
    ///
    /// # Errors
    /// The errors of [`working_set`](crate::working_set) before any transfer.
    pub fn announce<'a>(&self, set: &impl WorkingSet<'a>) -> Result<()> {
        let mut requests = Requests::default();
        set.request(&mut requests)?;
        let shared = requests.shared()?;
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
