//! Runs a sequence on the library and on the model, and compares all data that the host reads.

use crate::buffer::is_on_host;
use crate::model::Contents;
use crate::operation::{Advising, Kind, Operation, Prefetching, Reading, Start, Work, Writing};
use crate::pools::{POOLED, Pools};
use crate::world::{Machine, is_refusal};
use cuda_um::{Error, MemoryKind, buffer::TransferOptions};
use cuda_um_sim::HoldGuard;
use cuda_um_testkit::{AnyBuffer, each};

/// Limits on live buffers, and on the elements of all of them.
pub const MOST_BUFFERS: usize = 8;
const MOST_ELEMENTS: usize = 4 << 20;

pub type Outcome = Result<(), String>;

/// Runs all operations, checks every buffer at the end, and frees all.
///
/// # Errors
///
/// The difference, and the operation in which it occurred.
pub fn run(machine: &mut Machine, sequence: &[Operation]) -> Outcome {
    let mut replay = Replay::new(machine);
    for (index, operation) in sequence.iter().enumerate() {
        replay
            .step(operation)
            .map_err(|error| format!("operation {index}, {operation:?}: {error}"))?;
    }
    replay
        .finish()
        .map_err(|error| format!("at the end: {error}"))?;
    machine.nothing_left()
}

pub struct Slot {
    pub buffer: AnyBuffer,
    pub contents: Contents,
    pub kind: Kind,
}

pub struct Replay<'m> {
    // Declared first, so it is dropped first.
    pub hold: Option<HoldGuard>,
    pub slots: Vec<Slot>,
    pools: Vec<Pools>,
    /// True after any read-mostly advice: there may be copies on both sides, also of pages of other buffers.
    pub read_mostly: bool,
    /// True if events were recorded or waited for: the library does not track this work, so drops may wait while it is held.
    ordered: bool,
    /// True if other threads use the pools and the streams.
    pub is_shared: bool,
    pub machine: &'m mut Machine,
}

/// The result; `None` for a refusal that a machine with fewer features may give.
pub fn allowed<T>(poor: bool, result: cuda_um::Result<T>) -> Result<Option<T>, String> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if poor && is_refusal(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

pub fn text(error: Error) -> String {
    error.to_string()
}

/// Checks that the call is refused with the expected error.
pub fn refused<T>(result: cuda_um::Result<T>, expected: impl Fn(&Error) -> bool) -> Outcome {
    match result {
        Err(error) if expected(&error) => Ok(()),
        Err(error) => Err(format!("another error than expected: {error}")),
        Ok(_) => Err("it is not refused".to_owned()),
    }
}

pub fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::DeviceMismatch { .. })
}

impl<'m> Replay<'m> {
    fn new(machine: &'m mut Machine) -> Self {
        let pools = machine.sides.iter().map(|_| Pools::default()).collect();
        Self::with(machine, pools, false)
    }

    pub fn with(machine: &'m mut Machine, pools: Vec<Pools>, is_shared: bool) -> Self {
        Self {
            hold: None,
            slots: Vec::new(),
            pools,
            read_mostly: false,
            ordered: false,
            is_shared,
            machine,
        }
    }

    pub fn slot(&self, slot: u8) -> Option<usize> {
        usize::from(slot).checked_rem(self.slots.len())
    }

    pub fn step(&mut self, operation: &Operation) -> Outcome {
        let may_wait = self.ordered || self.waits(operation);
        self.act(operation)?;
        let Some(hold) = self.hold.as_ref().filter(|hold| hold.is_over()) else {
            return Ok(());
        };
        let by_us = hold.ended_by() == Some(std::thread::current().id());
        self.release();
        match by_us && !may_wait {
            true => Err("it waited for streams that are held".to_owned()),
            false => Ok(()),
        }
    }

    /// Releases the streams.
    fn release(&mut self) {
        self.hold = None;
        self.slots.iter_mut().for_each(|slot| {
            slot.contents.held_read = false;
            slot.contents.held_write = false;
        });
    }

    /// True if an operation may wait for work on a stream.
    fn waits(&self, operation: &Operation) -> bool {
        use Operation::*;
        match *operation {
            Enqueue(_, Work::Fill(slot, _)) => self
                .slot(slot)
                .is_some_and(|at| is_on_host(&self.slots[at].buffer)),
            Enqueue(..) | Drop(_) | Trim | NewStream(_) | Order(..) | Graph(..) | Hold(_) => false,
            Advise(_, _, advice, _) => matches!(advice, Advising::ReadMostly(true)),
            Allocate(kind, _, _, start) => {
                let is_pinned = kind.memory() == MemoryKind::Pinned;
                let is_zeroed_mapped = kind == Kind::Mapped && start == Start::Zeroed;
                matches!(start, Start::From(_))
                    || is_pinned
                    || is_zeroed_mapped
                    || kind.has_pattern()
            }
            Read(_, _, how) => how != Reading::TryRead,
            Write(.., how) => how != Writing::TryWrite,
            Prefetch(.., how) => !matches!(how, Prefetching::Each | Prefetching::Batch),
            Close(_) | Reclaim | Synchronize(_) | Staging(..) => true,
        }
    }

    fn act(&mut self, operation: &Operation) -> Outcome {
        use Operation::*;
        match *operation {
            Allocate(kind, device, len, start) => self.allocate(kind, device, len, start),
            Write(slot, part, seed, how) => self.write(slot, part, seed, how),
            Read(slot, part, how) => match self.slot(slot) {
                Some(at) => self.read(at, part, how),
                None => Ok(()),
            },
            Enqueue(stream, ref work) => self.enqueue(stream, work),
            Advise(slot, part, advice, at) => self.advise(slot, part, advice, at),
            Prefetch(slots, part, at, stream, how) => self.prefetch((slots, part), at, stream, how),
            Drop(slot) => {
                if let Some(at) = self.slot(slot) {
                    drop(self.slots.swap_remove(at));
                }
                Ok(())
            }
            Close(slot) => match self.slot(slot) {
                Some(at) => {
                    let buffer = self.slots.swap_remove(at).buffer;
                    each!(buffer, buffer => buffer.close()).map_err(text)
                }
                None => Ok(()),
            },
            Trim => {
                self.pools.iter().for_each(Pools::trim);
                self.count()
            }
            Reclaim => {
                // It waits for a thread that queries repeatedly, and queries do not end a hold.
                self.release();
                self.machine.runtime.reclaim().map_err(text)
            }
            Order(before, after) => {
                self.ordered = true;
                let event = self.machine.stream(before).1.record().map_err(text)?;
                self.machine.stream(after).1.wait(&event).map_err(text)
            }
            NewStream(stream) => self.machine.new_stream(stream).map_err(text),
            Synchronize(stream) => self.machine.stream(stream).1.synchronize().map_err(text),
            Staging(device, threads, ring_pages) => {
                let sides = &self.machine.sides;
                let options = TransferOptions::default()
                    .threads(usize::from(threads))
                    .ring_bytes(usize::from(ring_pages) * 4096);
                let side = &sides[usize::from(device) % sides.len()];
                side.device.set_transfer_options(options);
                Ok(())
            }
            Graph(stream, ref work, launches) => self.graph(stream, work, launches),
            Hold(order) => self.begin_to_hold(order),
        }
    }

    fn begin_to_hold(&mut self, order: u8) -> Outcome {
        if let (None, Some(sim)) = (&self.hold, &self.machine.sim) {
            // The query of a deferred free may record an event, which is also untracked work.
            self.machine.runtime.reclaim().map_err(text)?;
            if std::mem::take(&mut self.ordered) {
                self.machine.synchronize().map_err(text)?;
            }
            self.hold = Some(sim.hold(order.into()));
        }
        Ok(())
    }

    fn allocate(&mut self, kind: Kind, device: u8, len: usize, start: Start) -> Outcome {
        let total: usize = self.slots.iter().map(|s| s.contents.elements.len()).sum();
        if self.slots.len() == MOST_BUFFERS || total + len > MOST_ELEMENTS {
            return Ok(());
        }
        let mut contents = Contents::new(len, start.seed());
        let side = usize::from(device) % self.pools.len();
        let buffer = self.pools[side].allocate(kind, &self.machine.sides[side], len, start);
        let Some(buffer) = allowed(self.machine.poor, buffer)? else {
            return Ok(());
        };
        let stored = matches!(start, Start::Stored(..)) && !matches!(buffer, AnyBuffer::Pinned(_));
        contents.held_write = stored && self.hold.is_some();
        self.read_mostly |= kind.has_pattern();
        self.slots.push(Slot {
            buffer,
            contents,
            kind,
        });
        Ok(())
    }

    /// Checks that pools count their buffers correctly.
    fn count(&self) -> Outcome {
        for (at, kind) in POOLED.into_iter().enumerate() {
            let live: usize = self
                .pools
                .iter()
                .map(|pools| pools.live_buffers()[at])
                .sum();
            let expected = self.slots.iter().filter(|slot| slot.kind == kind).count();
            if live != expected && !self.is_shared {
                return Err(format!("{live} buffers of {kind:?} live, not {expected}"));
            }
        }
        Ok(())
    }

    /// Checks all buffers once more, and drops them.
    pub fn finish(mut self) -> Outcome {
        self.count()?;
        for at in 0..self.slots.len() {
            let how = [Reading::ReadGuard, Reading::ReadBack][at % 2];
            self.read(at, crate::operation::ALL, how)
                .map_err(|error| format!("slot {at}, {:?}: {error}", self.slots[at].kind))?;
        }
        self.hold = None;
        Ok(())
    }
}
