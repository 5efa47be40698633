//! Slots: they relate function pointers to simulators.
//!
//! A function of the CUDA API has no argument for the simulator. Therefore every entry point has a stub for each slot, which passes its
//! number on, and each simulator has a slot of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cuda_um_sys::locks::{Condvar, Mutex, RwLock};

use crate::engine::Core;

/// Simulators that can exist in a process at the same time.
pub(crate) const SLOTS: usize = 16;

static CORES: [RwLock<Option<Arc<Core>>>; SLOTS] = [const { RwLock::new(None) }; SLOTS];
static TAKEN: Mutex<u16> = Mutex::new(0);
static GIVEN: Condvar = Condvar::new();

/// Takes a free slot; waits up to `patience` for one.
pub(crate) fn take(core: &Arc<Core>, patience: Duration) -> Option<usize> {
    let deadline = Instant::now() + patience;
    let mut taken = TAKEN.lock();
    while *taken == u16::MAX {
        let rest = deadline.saturating_duration_since(Instant::now());
        if GIVEN.wait_for(&mut taken, rest).timed_out() {
            return None;
        }
    }
    let slot = taken.trailing_ones() as usize;
    *taken |= 1 << slot;
    *CORES[slot].write() = Some(core.clone());
    Some(slot)
}

/// Releases a slot.
pub(crate) fn give(slot: usize) {
    // This may be the last handle: it is dropped after the lock is released.
    let core = CORES[slot].write().take();
    drop(core);
    *TAKEN.lock() &= !(1 << slot);
    GIVEN.notify_one();
}

/// The simulator of a slot.
pub(crate) fn core(slot: usize) -> Option<Arc<Core>> {
    CORES[slot].read().clone()
}
