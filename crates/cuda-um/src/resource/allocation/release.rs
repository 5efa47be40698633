//! The end of an allocation: its memory goes back to its owner, or to another one.
#![allow(unsafe_code, reason = "frees memory by its address")]

use crate::context::capture;
use crate::context::drain::{drain, drain_or_abort};
use crate::context::op::What;
use crate::context::reclaim::{Deferred, Which};
use crate::context::tracker::{Access, InFlight};
use crate::error::Result;
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::owner::{Held, Released};
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

impl Allocation {
    /// Waits for the uses of the memory, frees it, and returns the object that it held.
    pub(crate) fn close(mut self) -> Result<Held> {
        let uses = self.in_flight.before(Access::Write);
        let (over, waited) = match self.traits().is_borrowed {
            true => (true, drain_or_abort(&uses)),
            false => drain(&uses),
        };
        let mut block = self.take_block();
        if !over {
            // A device may still use the memory, which is leaked.
            return waited.map(|()| None);
        }
        // It is over, also if a query would return an error.
        block.in_flight = InFlight::default();
        // SAFETY: the memory belongs to this allocation, all work on it is over, and it is not used again.
        let freed = unsafe { self.owner.free(block) };
        if self.traits().is_imported {
            self.state().reclaim.poll_few(Which::All);
        }
        waited.and(freed)
    }

    /// Gives the memory to another owner, which frees it in stream order after the work that is on `stream` now. Its uses stay tracked until
    /// they are done. Only if the owner can give it, and after the stream is ordered after the uses.
    pub(crate) fn give(mut self) -> NonNull<u8> {
        let uses = self.in_flight.before(Access::Write);
        let block = self.take_block();
        self.owner.give(&block);
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
        block.address.host
    }

    pub(crate) fn leak(mut self) {
        self.take_block();
    }

    /// Takes the memory, as it goes back. From here on it is leaked unless the owner gets it, also if a panic unwinds. Called once.
    fn take_block(&mut self) -> Box<Block> {
        assert!(std::mem::replace(&mut self.is_owned, false));
        // Before the memory has another owner.
        self.tell(What::Free);
        // SAFETY: the flag was true, so the block was not taken, and it is not taken again. Nothing uses it after this: the callers are a drop, and
        // functions whose end drops the allocation, which uses no block without the flag.
        let mut block = unsafe { ManuallyDrop::take(&mut self.block) };
        block.is_away = self.pages.is_away();
        block
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.is_owned {
            return;
        }
        // The caller may use borrowed memory as soon as this drop returns or unwinds: while the process ends, the thread stops in the wait.
        let is_borrowed = self.traits().is_borrowed;
        let waited = is_borrowed.then(|| drain_or_abort(&self.in_flight.before(Access::Write)));
        if fork::is_over() {
            return;
        }
        capture::keep(self.id, || self.for_graph());
        let block = self.take_block();
        let released = Released {
            owner: &self.owner,
            block,
            buffer: self.id,
        };
        match waited {
            // SAFETY: the memory belongs to this allocation, all work on it is over, and it is not used again.
            Some(waited) => unsafe { released.free_now(waited) },
            // SAFETY: the memory belongs to this allocation, its block has all uses, and it is not used again.
            None => unsafe { released.owner.release(released) },
        }
    }
}

impl Allocation {
    /// The memory, for the graph that this thread captures: what is left is empty. Memory of the caller or of another library, which may end with
    /// this drop, stays out: no launch of the graph finds it.
    fn for_graph(&mut self) -> Option<Box<dyn Any + Send + Sync>> {
        let is_of_others = self.traits().is_borrowed || self.traits().is_imported;
        (!is_of_others).then(|| {
            let empty = Self::empty::<u8>(self.device());
            Box::new(std::mem::replace(self, empty)) as _
        })
    }
}
