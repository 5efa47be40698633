//! Advice, prefetches, and the location of pages.

use crate::buffer::managed;
use crate::operation::{Advising, At, Part};
use crate::replay::{Outcome, Replay, Slot, allowed, refused, text};
use crate::world::is_refusal;
use cuda_um::{Advice, UnifiedBuffer, managed::PrefetchBatch};
use cuda_um_testkit::AnyBuffer;

impl Replay<'_> {
    pub fn advise(&mut self, slot: u8, part: Part, advice: Advising, at: At) -> Outcome {
        let Some(slot) = self.slot(slot) else {
            return Ok(());
        };
        let Slot {
            buffer, contents, ..
        } = &self.slots[slot];
        let AnyBuffer::Unified(unified) = buffer else {
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
        let advised = unified
            .view(part.of(contents.elements.len()))
            .and_then(|part| part.advise(given)?.require());
        if managed(&buffer).is_none() {
            return refused(advised, is_refusal);
        }
        allowed(self.machine.poor, advised).map(drop)
    }

    pub fn prefetch(&self, slot: u8, part: Part, at: At, stream: u8) -> Outcome {
        let Some(AnyBuffer::Unified(buffer)) = self.slot(slot).map(|at| &self.slots[at].buffer)
        else {
            return Ok(());
        };
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let prefetched = buffer
            .view(part.of(buffer.len()))
            .and_then(|part| part.prefetch_on(location, stream)?.require());
        if !buffer.is_managed() && !buffer.is_empty() {
            return refused(prefetched, is_refusal);
        }
        allowed(self.machine.poor, prefetched).map(drop)
    }

    pub fn prefetch_batch(&self, slots: u8, part: Part, at: At, stream: u8) -> Outcome {
        let mut batch = PrefetchBatch::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if let AnyBuffer::Unified(buffer) = &slot.buffer
                && slots >> index & 1 == 1
            {
                batch.add(buffer.view(part.of(buffer.len())).map_err(text)?);
            }
        }
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let prefetched = batch.prefetch_on(location, stream).map_err(text)?;
        allowed(self.machine.poor, prefetched.outcome.require()).map(drop)
    }

    /// Afterwards all pages are at the destination, unless a read left copies at other locations.
    pub fn prefetch_and_look(&self, slots: &[usize], at: At, stream: u8, batch: bool) -> Outcome {
        let managed = slots
            .iter()
            .filter_map(|slot| managed(&self.slots[*slot].buffer));
        let buffers: Vec<&UnifiedBuffer<u32>> = managed.collect();
        // Otherwise readers on other streams move pages.
        self.machine.synchronize().map_err(text)?;
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let prefetched = match batch {
            true => {
                let mut batch = PrefetchBatch::new();
                buffers.iter().for_each(|buffer| _ = batch.add(*buffer));
                let prefetched = batch.prefetch_on(location, stream);
                prefetched.and_then(|all| all.outcome.require())
            }
            false => buffers
                .iter()
                .try_for_each(|buffer| buffer.prefetch_on(location, stream)?.require()),
        };
        if allowed(self.machine.poor, prefetched)?.is_none() {
            return Ok(());
        }
        stream.synchronize().map_err(text)?;
        for buffer in buffers {
            let found = buffer.residency().map_err(text)?;
            let is_known = self.machine.tells_residency && !self.read_mostly && !self.is_shared;
            if is_known && found != Some(location) {
                return Err(format!("prefetched to {location}, but it is at {found:?}"));
            }
        }
        Ok(())
    }
}
