//! The ring of a device, its threads and its options: one job at a time has the ring, and new options apply from the next one on. Reads of storage
//! take turns; copies do not wait for the ring.

use crate::buffer::transfer::options::TransferOptions;
use crate::buffer::transfer::piece::Pieces;
use crate::buffer::transfer::ring::{CHUNKS, Lane, Ring};
use crate::buffer::transfer::staging_memory::{Preparing, StagingMemory};
use crate::buffer::transfer::workers::{HAS_RING, Workers};
use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::fork;
use crate::sync::{Condvar, Mutex, after_unlock};

/// Less memory is allocated at once: it takes as long as the driver's copy.
const AT_ONCE: usize = 1 << 20;

/// The state that all transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    state: Mutex<State>,
    /// A read gave the ring back.
    given_back: Condvar,
    pub(super) pieces: Pieces,
    workers: Workers,
}

#[derive(Default)]
struct State {
    options: TransferOptions,
    /// The number of times that the ring was freed.
    changes: u64,
    memory: Memory,
    /// `None` if no job has the ring; otherwise true if the job is a read.
    taken: Option<bool>,
}

/// The ring, and the memory that will be a part of it.
#[derive(Default)]
struct Memory {
    ring: Ring,
    preparing: Option<Preparing>,
    /// The bytes that the last copy lacked.
    lacks: usize,
}

/// Holds the ring for one job until it is dropped; jobs share one link anyway. It is not a lock, because code of the caller runs
/// meanwhile, and may copy and set options.
pub(super) struct Turn<'a> {
    transfers: &'a Transfers,
    pub(super) options: TransferOptions,
    memory: Memory,
    /// The value of `changes` when the ring was taken.
    changes: u64,
    is_read: bool,
}

impl Transfers {
    pub(crate) fn of(device: &DeviceState) -> &Self {
        device.transfers.get()
    }

    /// Sets the options for copies that begin after this call. Frees the ring: at once, which waits for work that still uses its memory, or
    /// at the end of the job that has the ring.
    pub(crate) fn configure(&self, options: TransferOptions) {
        self.change(|state| state.options = options);
    }

    /// Frees the pinned memory: at once, which waits for copies that use it, or at the end of the job that has it.
    pub(crate) fn free(&self) {
        self.change(|_| ());
    }

    /// Frees the memory under the same lock: a job that took the ring after a change of the options and before the free would write pieces of the new
    /// size to chunks of the old one.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let _unused = {
            let mut state = self.state.lock();
            change(&mut state);
            state.changes += 1;
            std::mem::take(&mut state.memory)
        };
        self.pieces.free();
    }

    pub(crate) fn options(&self) -> TransferOptions {
        self.state.lock().options
    }

    /// Takes the ring; `None` if another job has it. A read waits for the rounds of other reads, but not for one that this thread works on.
    pub(super) fn take(&self, is_read: bool) -> Option<Turn<'_>> {
        if is_read && HAS_RING.get() {
            return None;
        }
        let mut state = self.state.lock();
        while is_read && state.taken == Some(true) {
            self.given_back.wait(&mut state);
        }
        if state.taken.is_some() {
            return None;
        }
        state.taken = Some(is_read);
        if is_read {
            HAS_RING.set(true);
        }
        Some(Turn {
            transfers: self,
            options: state.options,
            memory: std::mem::take(&mut state.memory),
            changes: state.changes,
            is_read,
        })
    }
}

impl Turn<'_> {
    pub(super) fn workers(&self) -> &Workers {
        &self.transfers.workers
    }

    /// Returns the number of threads for which the ring has chunks, at most `threads`; `None` for less than two, which are faster than the driver.
    /// Memory that is missing is allocated now if the caller `waits`, and if it is little. Otherwise [`prepare`](Self::prepare) begins to
    /// allocate it, and until then the driver copies: no copy is slower than without a ring.
    pub(super) fn ring(
        &mut self,
        device: &DeviceState,
        threads: usize,
        waits: bool,
    ) -> Option<usize> {
        let Memory {
            ring,
            preparing,
            lacks,
        } = &mut self.memory;
        // The options may have changed since the caller chose the number.
        let threads = threads.min(self.options.threads);
        let chunk_bytes = self.options.chunk_bytes();
        let prepared = preparing.take_if(|preparing| waits || preparing.is_over());
        let mut new = prepared.and_then(Preparing::finish);
        while chunk_bytes > 0 && ring.lanes() < threads {
            let bytes = (threads - ring.lanes()) * CHUNKS * chunk_bytes;
            if new.is_none() && !waits && (preparing.is_some() || bytes >= AT_ONCE) {
                *lacks = bytes;
                break;
            }
            let memory = new.take();
            match memory.or_else(|| StagingMemory::allocate(device, bytes)) {
                Some(memory) => ring.add(memory, chunk_bytes),
                None => break,
            }
        }
        (ring.lanes() >= threads.min(2)).then_some(ring.lanes().min(threads))
    }

    /// Begins to allocate what the ring lacked for the last copy, which is over: beside it, both would take longer.
    pub(super) fn prepare(&mut self, device: &DeviceState) {
        let Memory {
            preparing, lacks, ..
        } = &mut self.memory;
        let bytes = std::mem::take(lacks);
        if bytes > 0 && preparing.is_none() {
            *preparing = Preparing::begin(device, bytes);
        }
    }

    /// Runs `work` on at most so many threads, each with a lane of the [`ring`](Self::ring).
    pub(super) fn run(
        &mut self,
        stream: &StreamInner,
        threads: usize,
        work: impl Fn(&mut Lane) + Sync,
    ) {
        let workers = &self.transfers.workers;
        self.memory.ring.run(workers, stream, threads, work);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // In a child made by `fork` in a closure, a thread that exists only in the parent may hold the lock for ever.
        if fork::is_inherited() {
            return;
        }
        let mut memory = std::mem::take(&mut self.memory);
        let is_whole = memory.ring.is_whole();
        let mut state = self.transfers.state.lock();
        state.taken = None;
        if self.is_read {
            HAS_RING.set(false);
            self.transfers.given_back.notify_all();
        }
        if state.changes == self.changes && is_whole {
            state.memory = memory;
        } else {
            // Do this after the lock and the turn at the gate are released: the drop waits for work that uses the memory, and for threads on
            // which a subscriber may wait for this thread's turn.
            after_unlock(move || drop(memory));
        }
    }
}
