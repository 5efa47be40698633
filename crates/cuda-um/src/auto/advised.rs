//! Buffers that plans advised: the advice ends with the plan, or with the buffer.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::auto::plan::Kept;
use crate::context::device::Device;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::cache::By;
use crate::sync::Mutex;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A buffer with the advice.
pub(super) struct Advised {
    session: u64,
    buffer: u64,
    device: Device,
    addresses: Range<*mut u8>,
    kept: Kept,
    /// The device that uses it.
    by: Location,
}

// SAFETY: the addresses are only passed to CUDA, while the list has the buffer.
unsafe impl Send for Advised {}

/// A buffer is in the list as long as it lives: its drop takes the lock before the memory is freed.
static ADVISED: Mutex<Vec<Advised>> = Mutex::new(Vec::new());

/// Advises a buffer, unless the program has. Returns false if it has.
///
/// The residency cache does not learn that a buffer is read-mostly: the advice may end at any time, and without it the cache only knows
/// less.
pub(super) fn set(session: u64, raw: &Allocation, kept: Kept, by: Location) -> Result<bool> {
    let addresses = raw.address_range(&(0..raw.bytes()));
    for (advice, _) in pairs(kept, by) {
        let (number, location) = advice.to_sys();
        raw.track_advice(&addresses, number, location);
    }
    let advised = Advised {
        session,
        buffer: raw.id(),
        device: raw.device().clone(),
        addresses,
        kept,
        by,
    };
    // Until it is unlocked, advice of the program on another thread waits: it ends this advice first.
    let mut list = ADVISED.lock();
    if raw.cache.is_advised() {
        drop(list);
        return Ok(false);
    }
    raw.cache.touched(By::Unknown);
    let set = advised.give(pairs(kept, by).iter().map(|(set, _)| *set));
    list.push(advised);
    drop(list);
    set.map(|()| true)
}

/// The advice, and what ends it.
fn pairs(kept: Kept, by: Location) -> SmallVec<[(Advice, Advice); 2]> {
    match kept {
        Kept::Both => smallvec![(Advice::SetReadMostly, Advice::UnsetReadMostly)],
        Kept::OnHost => smallvec![
            (
                Advice::SetPreferredLocation(Location::Host),
                Advice::UnsetPreferredLocation
            ),
            (Advice::SetAccessedBy(by), Advice::UnsetAccessedBy(by)),
        ],
    }
}

/// Ends a session's advice of a buffer.
pub(super) fn unset(session: u64, raw: &Allocation) -> Result<()> {
    raw.cache.touched(By::Unknown);
    unset_if(|advised| advised.session == session && advised.buffer == raw.id())
}

/// Forgets a buffer that is dropped: the sessions of several threads may have advised it.
pub(super) fn remove(buffer: u64) {
    let mut list = ADVISED.lock();
    let removed = list.extract_if(.., |advised| advised.buffer == buffer);
    let removed: SmallVec<[Advised; 1]> = removed.collect();
    // The drop of a device needs that the lock is not held.
    drop(list);
    drop(removed);
}

/// Ends all advice of a buffer, before the program gives its own.
pub(super) fn unset_of(buffer: u64) -> Result<()> {
    unset_if(|advised| advised.buffer == buffer)
}

/// Ends the advice of all buffers of a session.
pub(super) fn unset_all(session: u64) -> Result<()> {
    unset_if(|advised| advised.session == session)
}

fn unset_if(ends: impl Fn(&Advised) -> bool) -> Result<()> {
    let mut list = ADVISED.lock();
    let advised = list.extract_if(.., |advised| ends(advised));
    let advised: Vec<_> = advised.collect();
    // The lock keeps the buffers from being freed, so it is held until here. The drop of a device needs that it is not.
    let unset = advised.iter().map(Advised::unset);
    let result = unset.fold(Ok(()), Result::and);
    drop(list);
    result
}

impl Advised {
    fn unset(&self) -> Result<()> {
        self.give(pairs(self.kept, self.by).iter().map(|(_, undo)| *undo))
    }

    /// Gives each advice, also if another fails. The list must be locked.
    fn give(&self, advice: impl Iterator<Item = Advice>) -> Result<()> {
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        let given = advice.map(|advice| {
            let (number, location) = advice.to_sys();
            // SAFETY: the buffer is live, because it is about to be, or was, in the list: its drop waits for the lock.
            unsafe { api.advise(ordinal, self.addresses.clone(), number, location) }
        });
        given.fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, UnifiedBuffer};
    use cuda_um_sim::{Gpu, Sim};

    /// The sessions of two threads advise one buffer. The advice of both ends with it, because its memory is then that of others.
    #[test]
    fn sessions_have_their_own_advice_which_ends_with_the_buffer() {
        let sim = Sim::builder().gpu(Gpu::H200).build().unwrap();
        let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
        let buffer = UnifiedBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
        let (id, here) = (buffer.raw.id(), Location::from(&device));
        let sessions = || {
            let list = ADVISED.lock();
            let of_buffer = list.iter().filter(|advised| advised.buffer == id);
            of_buffer
                .map(|advised| u64::MAX - advised.session)
                .collect::<Vec<_>>()
        };
        // Numbers that no session of another test has.
        for session in [1, 2, 3] {
            set(u64::MAX - session, &buffer.raw, Kept::Both, here).unwrap();
        }
        unset(u64::MAX - 2, &buffer.raw).unwrap();
        assert_eq!(sessions(), [1, 3]);
        remove(id);
        assert!(sessions().is_empty());
    }
}
