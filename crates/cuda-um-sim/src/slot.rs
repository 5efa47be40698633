//! Slots: which simulator a plain function pointer belongs to.
//!
//! A function of the CUDA API has no argument that says which simulator is meant. Every entry point is therefore compiled
//! once for each slot, and a simulator holds one slot while it lives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::engine::Core;

/// Simulators that can live in a process at one time.
pub(crate) const SLOTS: usize = 32;

static CORES: [RwLock<Option<Arc<Core>>>; SLOTS] = [const { RwLock::new(None) }; SLOTS];
static TAKEN: Mutex<u32> = Mutex::new(0);
static GIVEN: Condvar = Condvar::new();

/// Takes a free slot; waits for one up to `patience`.
pub(crate) fn take(core: &Arc<Core>, patience: Duration) -> Option<usize> {
    let deadline = Instant::now() + patience;
    let mut taken = TAKEN.lock();
    while *taken == u32::MAX {
        if GIVEN.wait_until(&mut taken, deadline).timed_out() {
            return None;
        }
    }
    let slot = taken.trailing_ones() as usize;
    *taken |= 1 << slot;
    *CORES[slot].write() = Some(core.clone());
    Some(slot)
}

/// Gives a slot back.
pub(crate) fn give(slot: usize) {
    // It may be the last handle: nothing is dropped under a lock.
    let core = CORES[slot].write().take();
    drop(core);
    *TAKEN.lock() &= !(1 << slot);
    GIVEN.notify_one();
}

/// The simulator of a slot.
pub(crate) fn core(slot: usize) -> Option<Arc<Core>> {
    CORES[slot].read().clone()
}
