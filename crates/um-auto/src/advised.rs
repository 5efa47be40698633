//! Buffers that plans advised: the advice ends with the plan, or with the buffer.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::plan::Kept;
use cuda_um::observe::{Later, Part, later};
use cuda_um::{Advice, Device, Location, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Advised {
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

/// The locked list. The library is called under the lock; the fields are dropped in this order.
struct List {
    list: MutexGuard<'static, Vec<Advised>>,
    _later: Later,
}

impl List {
    fn lock() -> Self {
        Self {
            _later: later(),
            list: ADVISED.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Advises the buffer of a part, unless the program has. Returns false if it has.
pub(crate) fn set(session: u64, part: &Part<'_>, kept: Kept, by: Location) -> Result<bool> {
    let advised = Advised {
        session,
        buffer: part.buffer(),
        device: part.device().clone(),
        addresses: part.addresses(),
        kept,
        by,
    };
    // Until it is unlocked, advice of the program on another thread waits: it ends this advice first.
    let mut advised_by_plans = List::lock();
    if part.pages().are_advised {
        drop(advised_by_plans);
        return Ok(false);
    }
    advised_by_plans.list.push(advised);
    let given = pairs(kept, by);
    let given = given.iter().map(|(set, _)| part.advise(*set));
    given.fold(Ok(()), Result::and).map(|()| true)
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

pub(crate) fn unset(session: u64, part: &Part<'_>) -> Result<()> {
    let buffer = part.buffer();
    unset_if(|advised| advised.session == session && advised.buffer == buffer)
}

/// Forgets a buffer that is dropped: the sessions of several threads may have advised it.
pub(crate) fn remove(buffer: u64) {
    let mut locked = List::lock();
    let removed = locked
        .list
        .extract_if(.., |advised| advised.buffer == buffer);
    let removed: SmallVec<[Advised; 1]> = removed.collect();
    // The drop of a device needs that the lock is not held.
    drop(locked);
    drop(removed);
}

/// Ends all advice of a buffer, before the program gives its own.
pub(crate) fn unset_of(buffer: u64) -> Result<()> {
    unset_if(|advised| advised.buffer == buffer)
}

pub(crate) fn unset_all(session: u64) -> Result<()> {
    unset_if(|advised| advised.session == session)
}

fn unset_if(ends: impl Fn(&Advised) -> bool) -> Result<()> {
    let mut locked = List::lock();
    let advised = locked.list.extract_if(.., |advised| ends(advised));
    let advised: Vec<_> = advised.collect();
    // The lock keeps the buffers from being freed, so it is held until here. The drop of a device needs that it is not.
    let unset = advised.iter().map(Advised::unset);
    let result = unset.fold(Ok(()), Result::and);
    drop(locked);
    result
}

impl Advised {
    /// Ends each advice, also if another fails. The list must be locked.
    fn unset(&self) -> Result<()> {
        let unset = |(_, undo): &(Advice, Advice)| {
            // SAFETY: the buffer is live, because it was in the list: its drop waits for the lock.
            unsafe { self.device.advise_addresses(self.addresses.clone(), *undo) }
        };
        let pairs = pairs(self.kept, self.by);
        pairs.iter().map(unset).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests;
