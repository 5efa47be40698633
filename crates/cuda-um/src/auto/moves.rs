//! The moves of a session: prefetches and advice.

use crate::auto::advised;
use crate::auto::plan::{Kept, Moves, Step};
use crate::auto::report::AutoPrefetchStop;
use crate::auto::state::{Kind, Managed, Session, managed, may_advise};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, Use};
use crate::driver::location::Location;
use crate::error::Result;
use crate::managed::batch::PrefetchBatch;
use crate::resource::allocation::Allocation;
use crate::resource::cache::Place;
use cuda_um_cost::Faults;
use smallvec::SmallVec;

impl Session {
    /// Issues the moves of a step that come before the operation, and keeps those that follow it.
    pub(super) fn carry_out(
        &mut self,
        kind: &Kind,
        parts: &[Managed<'_, '_>],
        step: Option<&Step>,
    ) -> Result<()> {
        let mut needed: SmallVec<[Managed<'_, '_>; 4]> = SmallVec::new();
        for (at, managed) in parts.iter().enumerate() {
            let (position, part, raw) = managed;
            let moves = step.and_then(|step| step.moves.get(at)).cloned();
            let moves = moves.unwrap_or_default();
            self.advise(&moves, part, raw)?;
            let Some(pages) = self.buffers.get(&raw.id()) else {
                continue;
            };
            if moves.before && pages.real.missing(&part.bytes, kind.place) > 0 {
                needed.push(*managed);
            }
            if let Some(place) = moves.after {
                self.following.push((*position, place));
            }
        }
        if !kind.is_held {
            self.migrate(&needed, kind.place)?;
        }
        for (_, part, raw) in parts {
            if let Some(pages) = self.buffers.get(&raw.id()) {
                let faults = pages.base.missing(&part.bytes, kind.place);
                let saved = faults.saturating_sub(pages.real.missing(&part.bytes, kind.place));
                self.report.faults_avoided += match kind.place {
                    Place::Device(_) => Faults::of_device(saved).faults,
                    Place::Host => Faults::of_host(saved).faults,
                };
            }
        }
        Ok(())
    }

    /// Advises a buffer before a use, or ends its advice as read-mostly before a write.
    fn advise(&mut self, moves: &Moves, part: &Part<'_>, raw: &Allocation) -> Result<()> {
        let Some(pages) = self.buffers.get_mut(&raw.id()) else {
            return Ok(());
        };
        if pages.kept == Some(Kept::Both) && part.access.is_write() {
            pages.released(Place::Device(self.device.ordinal()));
            return advised::unset(self.number, raw);
        }
        let is_new = pages.kept.is_none() && may_advise(part, raw);
        if let Some(kept) = moves.advice.filter(|_| is_new)
            && advised::set(self.number, raw, kept, Location::from(&self.device))?
        {
            pages.kept = Some(kept);
            self.report.advised += 1;
        }
        Ok(())
    }

    /// Ends the advice of the plan.
    pub(super) fn release(&mut self) -> Result<()> {
        let device = Place::Device(self.device.ordinal());
        let buffers = self.buffers.values_mut();
        buffers.for_each(|pages| pages.released(device));
        advised::unset_all(self.number)
    }

    /// Enqueues the migration of parts to one place.
    fn migrate(&mut self, parts: &[Managed<'_, '_>], place: Place) -> Result<()> {
        // Memory that a guard holds stays where it is. So does memory that another library uses: a prefetch would wait for its work.
        let is_free = |(_, _, raw): &&Managed<'_, '_>| {
            let uses = raw.in_flight.before(Access::Move);
            !raw.cache.is_held() && !uses.iter().any(Use::must_wait)
        };
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
        for (_, part, raw) in parts {
            batch.push_part(raw, part.bytes.clone());
            if let Some(pages) = self.buffers.get_mut(&raw.id()) {
                bytes += pages.real.missing(&part.bytes, place);
                pages.moved(&part.bytes, place);
            }
        }
        self.report.prefetches += batch.enqueue(location, stream)? as u64;
        match place {
            Place::Device(_) => self.report.bytes_to_device += bytes,
            Place::Host => self.report.bytes_to_host += bytes,
        }
        Ok(())
    }

    /// The current operation is enqueued: issues the moves that follow it.
    pub(super) fn ended(&mut self, parts: &[Part<'_>]) {
        let following = std::mem::take(&mut self.following);
        for to in [Place::Host, Place::Device(self.device.ordinal())] {
            let of_place = following.iter().filter(|(_, place)| *place == to);
            let parts = of_place.filter_map(|(at, _)| managed((*at, parts.get(*at)?)));
            self.follow_up(&parts.collect::<SmallVec<[_; 4]>>(), to);
        }
    }

    pub(super) fn follow_up(&mut self, parts: &[Managed<'_, '_>], to: Place) {
        if let Err(error) = self.migrate(parts, to) {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
    }

    /// The program moves memory itself.
    pub(super) fn moved(&mut self, parts: &[Part<'_>], place: Place) {
        for (_, part, raw) in parts.iter().enumerate().filter_map(managed) {
            let pages = self.pages(raw);
            pages.used(&part.bytes, place);
        }
    }

    /// A copy writes memory, which ends its duplicates.
    pub(super) fn copied(&mut self, parts: &[Part<'_>]) {
        for (_, part, raw) in parts.iter().enumerate().filter_map(managed) {
            if let Err(error) = self.advise(&Moves::default(), part, raw) {
                return self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
            }
        }
    }
}
