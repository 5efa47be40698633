//! Runs a sequence on both sides, and compares whatever the host sees.

use crate::hold::Hold;
use crate::model::{Contents, number, numbers};
use crate::operation::{Advising, At, Kind, Operation, Part, Reading, Writing};
use crate::world::{Buffer, Machine, Pools, each, is_refusal};
use cuda_um::{Advice, Error, ErrorKind, Location, PrefetchBatch, TransferOptions};
use std::ops::Range;

/// Buffers that live at one time, and elements of all of them.
const MOST_BUFFERS: usize = 8;
const MOST_ELEMENTS: usize = 4 << 20;

type Outcome = Result<(), String>;

/// Runs all operations, looks at every buffer at the end, and gives all back.
///
/// # Errors
///
/// What differed, and in which operation.
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

struct Slot {
    buffer: Buffer,
    contents: Contents,
    kind: Kind,
}

struct Replay<'m> {
    // First, so dropped first.
    hold: Option<Hold>,
    slots: Vec<Slot>,
    pools: Vec<Pools>,
    /// Somebody advised that: copies on both sides, of neighbours' pages as well.
    read_mostly: bool,
    /// Events were recorded or waited for: work that the library does not count, so drops may wait while it is held.
    ordered: bool,
    machine: &'m mut Machine,
}

/// The result; `None` for a refusal that a poor machine may give.
fn allowed<T>(poor: bool, result: cuda_um::Result<T>) -> Result<Option<T>, String> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if poor && is_refusal(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

/// It must be refused like that.
fn refused<T>(result: cuda_um::Result<T>, expected: impl Fn(&Error) -> bool) -> Outcome {
    match result {
        Err(error) if expected(&error) => Ok(()),
        Err(error) => Err(format!("another error than expected: {error}")),
        Ok(_) => Err("it is not refused".to_owned()),
    }
}

fn is_mismatch(error: &Error) -> bool {
    matches!(error, Error::DeviceMismatch { .. })
}

impl<'m> Replay<'m> {
    fn new(machine: &'m mut Machine) -> Self {
        Self {
            hold: None,
            slots: Vec::new(),
            pools: machine.sides.iter().map(|_| Pools::default()).collect(),
            read_mostly: false,
            ordered: false,
            machine,
        }
    }

    fn slot(&self, slot: u8) -> Option<usize> {
        usize::from(slot).checked_rem(self.slots.len())
    }

    /// What follows may wait: held streams go on, while it does.
    fn may_wait(&mut self) -> Option<Hold> {
        let hold = self.hold.take()?;
        self.slots.iter_mut().for_each(|slot| {
            slot.contents.held_read = false;
            slot.contents.held_write = false;
        });
        hold.release_soon();
        Some(hold)
    }

    fn step(&mut self, operation: &Operation) -> Outcome {
        // Kept for the operation; streams are surely let go before the next one.
        let hold = match self.waits(operation) {
            true => self.may_wait(),
            false => None,
        };
        let outcome = self.act(operation);
        let released = hold.map_or(Ok(()), Hold::released);
        let still_held = self.hold.as_ref().map_or(Ok(()), Hold::check);
        outcome.and(released).and(still_held)
    }

    /// Whether an operation is allowed to wait for work on a stream.
    fn waits(&self, operation: &Operation) -> bool {
        use Operation::*;
        match *operation {
            Add { .. }
            | Copy { .. }
            | Advise { .. }
            | Prefetch { .. }
            | PrefetchBatch { .. }
            | Forget { .. }
            | Drop { .. }
            | Trim
            | NewStream { .. }
            | Hold => false,
            Allocate { seed, kind, .. } => {
                seed.is_some() || matches!(kind, Kind::PinnedPool | Kind::Mapped | Kind::Pattern(_))
            }
            Fill { slot, .. } => self
                .slot(slot)
                .is_some_and(|at| self.slots[at].buffer.is_on_host()),
            Read { how, .. } => how != Reading::Try,
            Write { how, .. } => how != Writing::Try,
            // A held record or wait is work that the library does not count.
            Order { .. }
            | PrefetchAndLook { .. }
            | Close { .. }
            | Reclaim
            | Synchronize { .. }
            | Staging { .. } => true,
        }
    }

    fn act(&mut self, operation: &Operation) -> Outcome {
        use Operation::*;
        match *operation {
            Allocate {
                kind,
                device,
                len,
                seed,
            } => self.allocate(kind, device, len, seed),
            Write {
                slot,
                part,
                seed,
                how,
            } => self.write(slot, part, seed, how),
            Read { slot, part, how } => match self.slot(slot) {
                Some(at) => self.read(at, part, how),
                None => Ok(()),
            },
            Fill {
                slot,
                stream,
                value,
            } => self.fill(slot, stream, value),
            Add {
                slot,
                part,
                stream,
                number,
            } => self.add(slot, part, stream, number),
            Copy {
                from,
                part,
                to,
                offset,
                stream,
            } => self.copy((from, part), (to, offset), stream),
            Advise {
                slot,
                part,
                advice,
                at,
            } => self.advise(slot, part, advice, at),
            Prefetch {
                slot,
                part,
                at,
                stream,
            } => self.prefetch(slot, part, at, stream),
            PrefetchBatch {
                slots,
                part,
                at,
                stream,
            } => self.prefetch_batch(slots, part, at, stream),
            PrefetchAndLook { slot, at, stream } => self.prefetch_and_look(slot, at, stream),
            Forget { slot } => {
                let slot = self.slot(slot).map(|at| &self.slots[at].buffer);
                if let Some(Buffer::Unified(buffer)) = slot {
                    buffer.forget_residency();
                }
                Ok(())
            }
            Drop { slot } => {
                if let Some(at) = self.slot(slot) {
                    drop(self.slots.swap_remove(at));
                }
                Ok(())
            }
            Close { slot } => match self.slot(slot) {
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
            Reclaim => self.machine.runtime.reclaim().map_err(text),
            Order { before, after } => {
                self.ordered = true;
                let event = self.machine.stream(before).1.record().map_err(text)?;
                self.machine.stream(after).1.wait(&event).map_err(text)
            }
            NewStream { stream } => self.machine.new_stream(stream).map_err(text),
            Synchronize { stream } => self.machine.stream(stream).1.synchronize().map_err(text),
            Staging {
                device,
                threads,
                ring_pages,
                from_bytes,
            } => {
                let sides = &self.machine.sides;
                let options = TransferOptions::default()
                    .threads(usize::from(threads))
                    .ring_bytes(usize::from(ring_pages) * 4096)
                    .from_bytes(usize::from(from_bytes));
                let side = &sides[usize::from(device) % sides.len()];
                side.device.set_transfer_options(options);
                Ok(())
            }
            Hold => {
                if let (None, Some(sim)) = (&self.hold, &self.machine.sim) {
                    if std::mem::take(&mut self.ordered) {
                        self.machine.synchronize().map_err(text)?;
                    }
                    self.hold = Some(crate::hold::Hold::new(sim));
                }
                Ok(())
            }
        }
    }

    fn allocate(&mut self, kind: Kind, device: u8, len: usize, seed: Option<u32>) -> Outcome {
        let total: usize = self.slots.iter().map(|s| s.contents.elements.len()).sum();
        if self.slots.len() == MOST_BUFFERS || total + len > MOST_ELEMENTS {
            return Ok(());
        }
        let contents = Contents::new(len, seed);
        let side = usize::from(device) % self.pools.len();
        let elements = seed.map(|_| &contents.elements[..]);
        let device = &self.machine.sides[side].device;
        let buffer = self.pools[side].allocate(kind, device, len, elements);
        let Some(buffer) = allowed(self.machine.poor, buffer)? else {
            return Ok(());
        };
        self.read_mostly |= matches!(kind, Kind::Pattern(_));
        self.slots.push(Slot {
            buffer,
            contents,
            kind,
        });
        Ok(())
    }

    fn write(&mut self, slot: u8, part: Part, seed: u32, how: Writing) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let len = contents.elements.len();
        let range = match how {
            Writing::CopyAsync => 0..len,
            _ => part.of(len),
        };
        let source = || numbers(seed, range.clone());
        macro_rules! in_place {
            ($buffer:ident) => {
                match how {
                    Writing::Guard => $buffer.host_mut(),
                    Writing::Try => $buffer.try_host_mut(),
                    _ => pollster::block_on($buffer.host_mut_async()),
                }
            };
        }
        let guard = match (&mut *buffer, how) {
            (Buffer::Device(_), Writing::Try) => return Ok(()),
            (_, Writing::Copy) | (Buffer::Device(_), Writing::Guard | Writing::Async) => {
                each!(buffer, buffer => buffer.copy_from_host_at(range.start, &source()))
                    .map_err(text)?;
                None
            }
            (_, Writing::CopyAsync) => {
                each!(buffer, buffer => pollster::block_on(buffer.copy_from_host_async(&source())))
                    .map_err(text)?;
                None
            }
            (_, Writing::Overwrite) => {
                each!(buffer, buffer => buffer.host_overwrite(range.clone(), |first, slots| {
                    slots.fill_with(|index| number(seed, first + index))
                }))
                .map_err(text)?;
                None
            }
            (Buffer::Unified(buffer), _) => Some(in_place!(buffer)),
            (Buffer::Pinned(buffer), _) => Some(in_place!(buffer)),
        };
        match guard {
            None => {}
            Some(Err(error)) if how == Writing::Try && error.kind() == ErrorKind::Busy => {
                return Ok(());
            }
            Some(Err(error)) => return Err(text(error)),
            Some(Ok(mut guard)) => {
                if contents.held_write || contents.held_read {
                    return Err("the host has a buffer that held work uses".to_owned());
                }
                contents.compare(0..len, &guard)?;
                guard[range.clone()].copy_from_slice(&source());
            }
        }
        contents.write(range, seed);
        Ok(())
    }

    fn read(&self, at: usize, part: Part, how: Reading) -> Outcome {
        let Slot {
            buffer, contents, ..
        } = &self.slots[at];
        let range = part.of(contents.elements.len());
        let copied = |range: &Range<usize>| {
            let mut found = vec![!0; range.len()];
            let copied = each!(buffer, buffer => buffer.copy_to_host_at(range.start, &mut found));
            copied.map(|()| found)
        };
        macro_rules! in_place {
            ($buffer:ident) => {
                match how {
                    Reading::Guard => $buffer.host(),
                    Reading::Try => $buffer.try_host(),
                    _ => pollster::block_on($buffer.host_async()),
                }
            };
        }
        let guard = match (buffer, how) {
            (Buffer::Device(_), Reading::Try) => return Ok(()),
            (_, Reading::Back) => {
                let found = each!(buffer, buffer => buffer.read_back()).map_err(text)?;
                return contents.compare(0..contents.elements.len(), &found);
            }
            (Buffer::Device(buffer), Reading::Async) => {
                let mut found = vec![!0; buffer.len()];
                pollster::block_on(buffer.copy_to_host_async(&mut found)).map_err(text)?;
                return contents.compare(0..found.len(), &found);
            }
            (_, Reading::Copy) | (Buffer::Device(_), Reading::Guard) => {
                let found = copied(&range).map_err(text)?;
                return contents.compare(range, &found);
            }
            (Buffer::Unified(buffer), _) => in_place!(buffer),
            (Buffer::Pinned(buffer), _) => in_place!(buffer),
        };
        match guard {
            Err(error) if how == Reading::Try && error.kind() == ErrorKind::Busy => Ok(()),
            Err(error) => Err(text(error)),
            Ok(_) if contents.held_write => {
                Err("the host has a buffer that held work writes".to_owned())
            }
            Ok(guard) => contents.compare(range.clone(), &guard[range]),
        }
    }

    fn fill(&mut self, slot: u8, stream: u8, value: u32) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let filled = each!(&mut *buffer, buffer => buffer.fill(value, stream));
        let elsewhere = buffer.ordinal() != side.device.ordinal();
        if elsewhere && buffer.is_on_device() {
            return refused(filled, is_mismatch);
        }
        filled.map_err(text)?;
        contents.held_write |= self.hold.is_some() && !buffer.is_on_host();
        contents.elements.fill(value);
        Ok(())
    }

    fn add(&mut self, slot: u8, part: Part, stream: u8, number: u32) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let range = part.of(contents.elements.len());
        let elsewhere = buffer.ordinal() != side.device.ordinal() && buffer.managed().is_none();
        let launched = each!(&mut *buffer, buffer => buffer.view_mut(range.clone()).and_then(|view| {
            side.add.launch(stream, range.len(), (view, range.len() as u32, number))
        }));
        if elsewhere {
            let poor = self.machine.poor;
            return refused(launched, |error| {
                is_mismatch(error) || poor && is_refusal(error)
            });
        }
        if allowed(self.machine.poor, launched)?.is_some() {
            contents.held_write |= self.hold.is_some();
            contents.add(range, number);
        }
        Ok(())
    }

    fn copy(&mut self, from: (u8, Part), to: (u8, u16), stream: u8) -> Outcome {
        let (Some(source), Some(mut target)) = (self.slot(from.0), self.slot(to.0)) else {
            return Ok(());
        };
        if source == target {
            target = (target + 1) % self.slots.len();
        }
        let stream = self.machine.stream(stream).1;
        let Ok([source, target]) = self.slots.get_disjoint_mut([source, target]) else {
            return Ok(());
        };
        let len = target.contents.elements.len();
        let offset = usize::from(to.1) * len / usize::from(u16::MAX);
        let mut range = from.1.of(source.contents.elements.len());
        range.end = range.end.min(range.start + len - offset);
        let copied = each!(&source.buffer, source => each!(&mut target.buffer, target => {
            stream.copy_range(source, range.clone(), target, offset)
        }));
        copied.map_err(text)?;
        let held = self.hold.is_some() && !range.is_empty();
        source.contents.held_read |= held;
        target.contents.held_write |= held;
        target.contents.elements[offset..offset + range.len()]
            .copy_from_slice(&source.contents.elements[range]);
        Ok(())
    }

    fn advise(&mut self, slot: u8, part: Part, advice: Advising, at: At) -> Outcome {
        let Some(slot) = self.slot(slot) else {
            return Ok(());
        };
        let Slot {
            buffer, contents, ..
        } = &self.slots[slot];
        let Buffer::Unified(unified) = buffer else {
            return Ok(());
        };
        let location = at.location(self.machine.sides.len());
        let given = match advice {
            Advising::ReadMostly(true) => Advice::SetReadMostly,
            Advising::ReadMostly(false) => Advice::UnsetReadMostly,
            Advising::Preferred(true) => Advice::SetPreferredLocation(location),
            Advising::Preferred(false) => Advice::UnsetPreferredLocation,
            Advising::AccessedBy(true) => Advice::SetAccessedBy(location),
            Advising::AccessedBy(false) => Advice::UnsetAccessedBy(location),
        };
        self.read_mostly |= matches!(advice, Advising::ReadMostly(_));
        let advised = unified.advise_range(part.of(contents.elements.len()), given);
        if buffer.managed().is_none() {
            return refused(advised, is_refusal);
        }
        allowed(self.machine.poor, advised).map(drop)
    }

    fn prefetch(&self, slot: u8, part: Part, at: At, stream: u8) -> Outcome {
        let Some(Buffer::Unified(buffer)) = self.slot(slot).map(|at| &self.slots[at].buffer) else {
            return Ok(());
        };
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let prefetched = buffer.prefetch_range(part.of(buffer.len()), location, stream);
        allowed(self.machine.poor, prefetched).map(drop)
    }

    fn prefetch_batch(&self, slots: u8, part: Part, at: At, stream: u8) -> Outcome {
        let mut batch = PrefetchBatch::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if let Buffer::Unified(buffer) = &slot.buffer
                && slots >> index & 1 == 1
            {
                batch
                    .add_range(buffer, part.of(buffer.len()))
                    .map_err(text)?;
            }
        }
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        allowed(self.machine.poor, batch.prefetch(location, stream)).map(drop)
    }

    fn prefetch_and_look(&self, slot: u8, at: At, stream: u8) -> Outcome {
        let Some(slot) = self.slot(slot) else {
            return Ok(());
        };
        let Some(buffer) = self.slots[slot].buffer.managed() else {
            return Ok(());
        };
        // Else readers on other streams take pages along.
        self.machine.synchronize().map_err(text)?;
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let prefetched = buffer.prefetch(location, stream);
        if allowed(self.machine.poor, prefetched)?.is_none() {
            return Ok(());
        }
        let parts = buffer.residency().map_err(text)?;
        let is_there = |found: Option<Location>| found == Some(location);
        let all_there = parts.iter().all(|part| is_there(part.location));
        if self.machine.tells_residency && !self.read_mostly && !all_there {
            return Err(format!("prefetched to {location}, but it is at {parts:?}"));
        }
        Ok(())
    }

    /// Pools know how many buffers they have.
    fn count(&self) -> Outcome {
        for kind in [Kind::UnifiedPool, Kind::DevicePool, Kind::PinnedPool] {
            let live: usize = self
                .pools
                .iter()
                .map(|pools| pools.live_buffers(kind))
                .sum();
            let expected = self.slots.iter().filter(|slot| slot.kind == kind).count();
            if live != expected {
                return Err(format!("{live} buffers of {kind:?} live, not {expected}"));
            }
        }
        Ok(())
    }

    /// Looks at everything once more, and lets it go.
    fn finish(mut self) -> Outcome {
        self.count()?;
        let hold = self.may_wait();
        for at in 0..self.slots.len() {
            let how = [Reading::Guard, Reading::Back][at % 2];
            self.read(at, crate::operation::ALL, how)
                .map_err(|error| format!("slot {at}, {:?}: {error}", self.slots[at].kind))?;
        }
        hold.map_or(Ok(()), Hold::released)
    }
}
