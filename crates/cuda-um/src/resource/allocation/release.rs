//! The end of an allocation: its memory goes back to its owner, or to another one.
#![allow(unsafe_code, reason = "frees memory by its address")]

use crate::context::capture;
use crate::context::drain::{drain, drain_or_abort};
use crate::context::op::What;
use crate::context::reclaim::{Deferred, Which};
use crate::context::tracker::Access;
use crate::error::Result;
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::owner::{Held, Released};
use std::ptr::NonNull;
use std::sync::Arc;

impl Allocation {
    /// Waits for the uses of the memory, frees it, and returns the object that it held.
    pub(crate) fn close(mut self) -> Result<Held> {
        let uses = self.in_flight.before(Access::Write);
        // From here on the memory is leaked, unless `free` is reached.
        self.is_owned = false;
        let (over, waited) = match self.traits().is_borrowed {
            true => (true, drain_or_abort(&uses)),
            false => drain(&uses),
        };
        // Before the memory has another owner.
        self.tell(What::Free);
        if !over {
            // A device may still use the memory.
            return waited.map(|()| None);
        }
        let block = self.block_now();
        // SAFETY: the memory belongs to this allocation, all work on it is over, and it is not used again.
        let freed = unsafe { self.owner.free(&block) };
        if self.traits().is_imported {
            self.state().reclaim.poll_few(Which::All);
        }
        waited.and(freed)
    }

    /// Gives the memory to another owner, which frees it in stream order after the work that is on `stream` now. Its uses stay tracked until
    /// they are done. Only if the owner can give it, and after the stream is ordered after the uses.
    pub(crate) fn give(mut self) -> NonNull<u8> {
        let uses = self.in_flight.before(Access::Write);
        self.is_owned = false;
        self.tell(What::Free);
        self.owner.give(&self.block);
        if !uses.is_empty() {
            // A stream of another library keeps its owner until the work is done.
            self.state().reclaim.defer(Deferred {
                device: Arc::clone(self.state()),
                uses,
                what: format!("the uses of buffer {}, which was given away", self.id),
                bytes: 0,
                waits: false,
                is_foreign: false,
                release: Box::new(|| Ok(())),
            });
        }
        self.pointer()
    }

    /// Leaks the memory, and releases everything else.
    pub(crate) fn leak(mut self) {
        self.is_owned = false;
        self.tell(What::Free);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        if capture::is_active() && self.is_owned {
            self.keep_captured();
        }
        // From here on the memory is leaked, unless `release` is reached, even if a panic unwinds.
        if !std::mem::replace(&mut self.is_owned, false) {
            return;
        }
        // Borrowed memory is waited for: the thread stops in the wait.
        if fork::is_over() && !self.traits().is_borrowed {
            return;
        }
        let waited = self.traits().is_borrowed.then(|| {
            // The caller may use the memory as soon as this drop returns or unwinds.
            drain_or_abort(&self.in_flight.before(Access::Write))
        });
        self.tell(What::Free);
        let released = self.released();
        match waited {
            // SAFETY: the memory belongs to this allocation, all work on it is over, and it is not used again.
            Some(waited) => unsafe { released.free_now(waited) },
            // SAFETY: the memory belongs to this allocation, these are all its uses, and it is not used again.
            None => unsafe { released.owner.release(released) },
        }
    }
}

impl Allocation {
    /// Gives the memory to the graph that this thread captures, if its work uses the memory. What is left is empty.
    ///
    /// Memory of the caller or of another library, which may end with this drop, stays out: no launch of the graph finds it.
    #[cold]
    fn keep_captured(&mut self) {
        if self.traits().is_borrowed || self.traits().is_imported {
            return;
        }
        capture::keep(self.id, || {
            let empty = Self::empty::<u8>(self.device());
            Box::new(std::mem::replace(self, empty))
        });
    }

    /// The block as it goes back.
    pub(super) fn block_now(&self) -> Block {
        Block {
            is_away: self.pages.is_away(),
            ..self.block
        }
    }

    /// The memory on its way back; its uses are no longer here.
    fn released(&mut self) -> Released<'_> {
        Released {
            uses: self.in_flight.take(),
            owner: &self.owner,
            block: self.block_now(),
            buffer: self.id,
        }
    }
}
