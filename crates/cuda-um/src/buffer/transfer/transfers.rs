//! The ring of a device and its options: one copy at a time has the ring, and new options apply from the next copy on.

use crate::buffer::transfer::options::TransferOptions;
use crate::buffer::transfer::piece::Pieces;
use crate::buffer::transfer::ring::Ring;
use crate::context::device::DeviceState;
use crate::fork;
use crate::sync::{Mutex, after_unlock};
use std::ops::Deref;

/// The state that all transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    state: Mutex<State>,
    pub(super) pieces: Pieces,
}

#[derive(Default)]
struct State {
    options: TransferOptions,
    /// The number of times that the ring was freed.
    changes: u64,
    /// Made by the first copy.
    ring: Option<Ring>,
    /// True while a copy has the ring.
    is_taken: bool,
}

/// Holds the ring for one copy until it is dropped; copies share one link anyway. It is not a lock, because closures of the caller run
/// meanwhile, and may copy and set options.
pub(super) struct RingTurn<'a> {
    transfers: &'a Transfers,
    /// `None` only during the drop.
    ring: Option<Ring>,
    /// The value of `changes` when the ring was taken.
    changes: u64,
}

impl Transfers {
    /// Returns the transfers of a device.
    pub(crate) fn of(device: &DeviceState) -> &Self {
        device.transfers.get()
    }

    /// Sets the options for copies that begin after this call. Frees the ring: at once, which waits for work that still uses its memory, or
    /// at the end of the copy that has the ring.
    pub(crate) fn configure(&self, options: TransferOptions) {
        self.state.lock().options = options;
        self.pieces.set_options(options);
        self.free();
    }

    /// Frees the pinned memory: at once, which waits for copies that use it, or at the end of the copy that has it.
    pub(crate) fn free(&self) {
        let _unused = {
            let mut state = self.state.lock();
            state.changes += 1;
            state.ring.take()
        };
        self.pieces.free();
    }

    /// Returns the largest number of threads that copy.
    pub(super) fn threads(&self) -> usize {
        self.state.lock().options.threads
    }

    /// Takes the ring; `None` if another copy has it.
    pub(super) fn take(&self) -> Option<RingTurn<'_>> {
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
        // In a child made by `fork` in a closure, a thread that exists only in the parent may hold the lock for ever.
        if fork::is_inherited() {
            return;
        }
        let mut state = self.transfers.state.lock();
        state.is_taken = false;
        let ring = self.ring.take();
        if state.changes == self.changes {
            state.ring = ring;
        } else {
            // With new options the old ring is freed. Do this after the lock and the turn at the gate are released: the drop waits for work
            // that uses the memory, and for threads on which a subscriber may wait for this thread's turn.
            after_unlock(move || drop(ring));
        }
    }
}
