//! The ring of a device and its options: one copy at a time has the ring, and new options apply from the next copy on. Reads of files take turns;
//! copies do not wait for the ring.

use crate::buffer::transfer::options::TransferOptions;
use crate::buffer::transfer::piece::Pieces;
use crate::buffer::transfer::ring::Ring;
use crate::buffer::transfer::workers::HAS_RING;
use crate::context::capture;
use crate::context::device::DeviceState;
use crate::fork;
use crate::sync::{Condvar, Mutex, after_unlock};
use std::ops::Deref;

/// The state that all transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    state: Mutex<State>,
    /// A read gave the ring back.
    given_back: Condvar,
    pub(super) pieces: Pieces,
}

#[derive(Default)]
struct State {
    options: TransferOptions,
    /// The number of times that the ring was freed.
    changes: u64,
    /// Made by the first copy.
    ring: Option<Ring>,
    /// True while a copy or a read has the ring.
    is_taken: bool,
    /// The numbers of the next read that asks for the ring, and of the one whose turn it is.
    asked: u64,
    served: u64,
}

/// Holds the ring for one copy until it is dropped; copies share one link anyway. It is not a lock, because closures of the caller run
/// meanwhile, and may copy and set options.
pub(super) struct RingTurn<'a> {
    transfers: &'a Transfers,
    /// `None` only during the drop.
    ring: Option<Ring>,
    /// The value of `changes` when the ring was taken.
    changes: u64,
    is_read: bool,
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
        let unused = {
            let mut state = self.state.lock();
            state.changes += 1;
            state.ring.take()
        };
        self.pieces.free();
        capture::drop_after(unused);
    }

    /// Takes the ring; `None` if another copy has it.
    pub(super) fn take(&self) -> Option<RingTurn<'_>> {
        let mut state = self.state.lock();
        let options = state.options;
        self.take_of(&mut state, options)
    }

    /// Takes the ring for one round of a read, after the rounds of other reads; `None` if a copy has it, or a round that this thread works on.
    /// The ring has chunks for pieces of this size, if the options allow such.
    pub(super) fn take_to_read(&self, piece_bytes: usize) -> Option<RingTurn<'_>> {
        if HAS_RING.get() {
            return None;
        }
        let mut state = self.state.lock();
        let number = state.asked;
        state.asked += 1;
        while state.served != number {
            self.given_back.wait(&mut state);
        }
        let options = state.options.with_chunks(piece_bytes);
        let is_small = |ring: &mut Ring| ring.options().chunk_bytes() < options.chunk_bytes();
        let small = state.ring.take_if(is_small);
        let mut turn = self.take_of(&mut state, options);
        match &mut turn {
            Some(turn) => turn.is_read = true,
            None => self.serve_next(&mut state),
        }
        HAS_RING.set(turn.is_some());
        drop(state);
        // Later, as for other options.
        if let Some(small) = small {
            after_unlock(move || drop(small));
        }
        turn
    }

    /// Lets the next read take the ring.
    fn serve_next(&self, state: &mut State) {
        state.served += 1;
        self.given_back.notify_all();
    }

    /// Returns the number of threads of a read of so many bytes, and the size of its pieces in bytes.
    pub(super) fn read_shape(&self, bytes: usize) -> (usize, usize) {
        let options = self.state.lock().options;
        (options.threads, options.read_piece_bytes(bytes))
    }

    fn take_of<'a>(&'a self, state: &mut State, new: TransferOptions) -> Option<RingTurn<'a>> {
        if state.is_taken {
            return None;
        }
        state.is_taken = true;
        let ring = state.ring.take();
        Some(RingTurn {
            transfers: self,
            ring: Some(ring.unwrap_or_else(|| Ring::new(new))),
            changes: state.changes,
            is_read: false,
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
        if self.is_read {
            HAS_RING.set(false);
            self.transfers.serve_next(&mut state);
        }
        let ring = self.ring.take();
        if state.changes == self.changes {
            state.ring = ring;
        } else {
            // With new options the old ring is freed. Do this after the lock and the turn at the gate are released: the drop waits for work
            // that uses the memory, and for threads on which a subscriber may wait for this thread's turn.
            after_unlock(move || capture::drop_after(ring));
        }
    }
}
