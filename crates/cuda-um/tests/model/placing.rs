//! Advice, prefetches, and the location of pages.

use crate::buffer::managed;
use crate::operation::{ALL, Advising, At, Part, Prefetching};
use crate::replay::{Outcome, Replay, Slot, allowed, refused, text};
use crate::world::is_refusal;
use cuda_um::{Advice, managed::PrefetchBatch};
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
        if managed(buffer).is_none() {
            return refused(advised, is_refusal);
        }
        allowed(self.machine.poor, advised).map(drop)
    }

    pub fn prefetch(
        &self,
        (slots, part): (u8, Part),
        at: At,
        stream: u8,
        how: Prefetching,
    ) -> Outcome {
        let looks = matches!(how, Prefetching::EachAndLook | Prefetching::BatchAndLook);
        let is_batch = matches!(how, Prefetching::Batch | Prefetching::BatchAndLook);
        if looks {
            // Otherwise readers on other streams move pages.
            self.machine.synchronize().map_err(text)?;
        }
        let part = if looks { ALL } else { part };
        let poor = self.machine.poor;
        let location = at.location(self.machine.sides.len());
        let stream = self.machine.stream(stream).1;
        let chosen = self.slots.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| slots >> index & 1 == 1);
        let mut batch = PrefetchBatch::new();
        for (_, slot) in chosen.clone() {
            let AnyBuffer::Unified(buffer) = &slot.buffer else {
                continue;
            };
            let view = buffer.view(part.of(buffer.len())).map_err(text)?;
            if is_batch {
                batch.add(view);
                continue;
            }
            let prefetched = view.prefetch_on(location, stream);
            let prefetched = prefetched.and_then(|outcome| outcome.require());
            match buffer.is_managed() || buffer.is_empty() {
                true => allowed(poor, prefetched).map(drop)?,
                false => refused(prefetched, is_refusal)?,
            }
        }
        let prefetched = batch.prefetch_on(location, stream).map_err(text)?;
        allowed(poor, prefetched.outcome.require())?;
        if !looks || !self.machine.tells_residency || self.read_mostly || self.is_shared {
            return Ok(());
        }
        // Afterwards all pages are at the destination, unless a read left copies at other locations.
        stream.synchronize().map_err(text)?;
        for buffer in chosen.filter_map(|(_, slot)| managed(&slot.buffer)) {
            let found = buffer.residency().map_err(text)?;
            if found != Some(location) {
                return Err(format!("prefetched to {location}, but it is at {found:?}"));
            }
        }
        Ok(())
    }
}
