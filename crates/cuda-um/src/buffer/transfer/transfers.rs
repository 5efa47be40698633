//! The ring of a device and its options: one copy at a time has the ring, and new options take effect between two.

use crate::buffer::transfer::options::TransferOptions;
use crate::buffer::transfer::ring::Ring;
use crate::context::device::DeviceState;
use crate::fork::Origin;
use crate::sync::{Mutex, after_unlock};
use std::ops::Deref;

/// What the transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    options: TransferOptions,
    /// How often they were set.
    changes: u64,
    /// Made by the first copy.
    ring: Option<Ring>,
    /// A copy has the ring.
    is_taken: bool,
}

/// The ring, which one copy has until this is dropped: copies share one link anyway. It is no lock: closures of the caller run meanwhile,
/// and may copy and set options.
pub(crate) struct RingTurn<'a> {
    transfers: &'a Transfers,
    /// None only while this is dropped.
    ring: Option<Ring>,
    /// Of its options.
    changes: u64,
    origin: Origin,
}

impl Transfers {
    /// Those of a device.
    pub(crate) fn of(device: &DeviceState) -> &Self {
        device.transfers.get()
    }

    /// Sets the options for the copies that begin from now on. The ring is freed: now, which waits for what still uses its memory, or when
    /// the copy that has it ends.
    pub(crate) fn configure(&self, options: TransferOptions) {
        let _unused = {
            let mut state = self.state.lock();
            state.options = options;
            state.changes += 1;
            state.ring.take()
        };
    }

    /// How many threads copy at most.
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().options.threads
    }

    /// The ring, if no copy has it now.
    pub(crate) fn take(&self) -> Option<RingTurn<'_>> {
        let mut state = self.state.lock();
        if state.is_taken {
            return None;
        }
        state.is_taken = true;
        let ring = state.ring.take();
        Some(RingTurn {
            transfers: self,
            ring: Some(ring.unwrap_or_else(|| Ring::new(state.options))),
            changes: state.changes,
            origin: Origin::here(),
        })
    }
}

impl Deref for RingTurn<'_> {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        self.ring
            .as_ref()
            .expect("it is there until this is dropped")
    }
}

impl Drop for RingTurn<'_> {
    fn drop(&mut self) {
        // A child made by `fork` in a closure: another thread of its parent may hold the lock for good.
        if self.origin.is_inherited() {
            return;
        }
        let mut state = self.transfers.state.lock();
        state.is_taken = false;
        let ring = self.ring.take();
        if state.changes == self.changes {
            state.ring = ring;
        } else {
            // With other options it is freed. That waits for what still uses its memory, and for its threads, where a subscriber may wait
            // for this thread's turn at the gate: after both.
            after_unlock(move || drop(ring));
        }
    }
}
