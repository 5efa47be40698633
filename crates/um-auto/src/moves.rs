//! The moves of a session: prefetches and advice.

use crate::advised;
use crate::plan::{Kept, Moves, Step};
use crate::report::AutoPrefetchStop;
use crate::state::{Kind, Managed, Place, Session, managed, may_advise};
use cuda_um::cost::Faults;
use cuda_um::observe::Part;
use cuda_um::{Location, Result, managed::PrefetchBatch};
use smallvec::SmallVec;

impl Session {
    /// Issues the moves of a step that come before the operation, and keeps those that follow it.
    pub(crate) fn carry_out(
        &mut self,
        kind: &Kind,
        parts: &[Managed<'_, '_>],
        step: Option<&Step>,
    ) -> Result<()> {
        let mut needed: SmallVec<[Managed<'_, '_>; 4]> = SmallVec::new();
        for (at, managed) in parts.iter().enumerate() {
            let (position, part) = managed;
            let moves = step.and_then(|step| step.moves.get(at)).cloned();
            let moves = moves.unwrap_or_default();
            self.advise(&moves, part)?;
            let Some(pages) = self.buffers.get(&part.buffer()) else {
                continue;
            };
            if moves.before && pages.real.missing(&part.range(), kind.place) > 0 {
                needed.push(*managed);
            }
            if let Some(place) = moves.after {
                self.following.push((*position, place));
            }
        }
        if !kind.is_held {
            self.migrate(&needed, kind.place)?;
        }
        for (_, part) in parts {
            if let Some(pages) = self.buffers.get(&part.buffer()) {
                let faults = pages.base.missing(&part.range(), kind.place);
                let saved = faults.saturating_sub(pages.real.missing(&part.range(), kind.place));
                self.report.faults_avoided += match kind.place {
                    Place::Device(_) => Faults::of_device(saved).faults,
                    Place::Host => Faults::of_host(saved).faults,
                };
            }
        }
        Ok(())
    }

    /// Advises a buffer before a use, or ends its advice as read-mostly before a write.
    fn advise(&mut self, moves: &Moves, part: &Part<'_>) -> Result<()> {
        let Some(pages) = self.buffers.get_mut(&part.buffer()) else {
            return Ok(());
        };
        if pages.kept == Some(Kept::Both) && part.writes() {
            pages.released(Place::Device(self.device.ordinal()));
            return advised::unset(self.number, part);
        }
        let is_new = pages.kept.is_none() && may_advise(part);
        if let Some(kept) = moves.advice.filter(|_| is_new)
            && advised::set(self.number, part, kept, Location::from(&self.device))?
        {
            pages.kept = Some(kept);
            self.report.advised += 1;
        }
        Ok(())
    }

    pub(crate) fn release(&mut self) -> Result<()> {
        let device = Place::Device(self.device.ordinal());
        let buffers = self.buffers.values_mut();
        buffers.for_each(|pages| pages.released(device));
        advised::unset_all(self.number)
    }

    fn migrate(&mut self, parts: &[Managed<'_, '_>], place: Place) -> Result<()> {
        // Memory that a guard holds stays where it is. So does memory that another library uses: a prefetch would wait for its work.
        let is_free = |(_, part): &&Managed<'_, '_>| !part.pages().are_held && !part.is_lent();
        let parts: SmallVec<[_; 4]> = parts.iter().filter(is_free).collect();
        if parts.is_empty() {
            return Ok(());
        }
        if self.streams.is_none() {
            self.streams = Some([self.device.create_stream()?, self.device.create_stream()?]);
        }
        let Some([to_device, to_host]) = &self.streams else {
            return Ok(());
        };
        let (stream, location) = match place {
            Place::Device(ordinal) => (to_device, Location::Device(ordinal)),
            Place::Host => (to_host, Location::Host),
        };
        let mut batch = PrefetchBatch::new();
        let mut bytes = 0;
        for (_, part) in parts {
            batch.add_part(part);
            if let Some(pages) = self.buffers.get_mut(&part.buffer()) {
                bytes += pages.real.missing(&part.range(), place);
                pages.moved(&part.range(), place);
            }
        }
        self.report.prefetches += batch.prefetch_on(location, stream)?.calls as u64;
        match place {
            Place::Device(_) => self.report.bytes_to_device += bytes,
            Place::Host => self.report.bytes_to_host += bytes,
        }
        Ok(())
    }

    /// The current operation is enqueued: issues the moves that follow it.
    pub(crate) fn ended(&mut self, parts: &[Part<'_>]) {
        let following = std::mem::take(&mut self.following);
        for to in [Place::Host, Place::Device(self.device.ordinal())] {
            let of_place = following.iter().filter(|(_, place)| *place == to);
            let parts = of_place.filter_map(|(at, _)| managed((*at, parts.get(*at)?)));
            self.follow_up(&parts.collect::<SmallVec<[_; 4]>>(), to);
        }
    }

    pub(crate) fn follow_up(&mut self, parts: &[Managed<'_, '_>], to: Place) {
        if let Err(error) = self.migrate(parts, to) {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
    }

    /// The program moves memory itself.
    pub(crate) fn moved(&mut self, parts: &[Part<'_>], place: Place) {
        self.following.clear();
        for (_, part) in parts.iter().enumerate().filter_map(managed) {
            self.pages(part).used(&part.range(), place);
        }
    }

    /// A copy writes memory, which ends its duplicates.
    pub(crate) fn copied(&mut self, parts: &[Part<'_>]) {
        self.following.clear();
        for (_, part) in parts.iter().enumerate().filter_map(managed) {
            if let Err(error) = self.advise(&Moves::default(), part) {
                return self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
            }
        }
    }
}
