//! Prefetch and discard of managed memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::device::Devices;
use super::managed::{HOST, SYSTEM};
use super::place::Place;
use super::state::State;
use super::status::Code;
use super::stream::{Completion, Stream};
use cuda_um_cost::at_rate;

/// The operation on a range of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    /// Discard the contents first.
    pub(crate) discard: bool,
    /// Then prefetch.
    pub(crate) to: Option<Place>,
}

/// A range of a batch that was checked.
struct Item {
    /// The id of its allocation.
    id: Option<usize>,
    base: usize,
    pages: Range<usize>,
    batch: Batch,
}

impl State {
    /// Checks and enqueues a prefetch of the pages that hold a range.
    pub(crate) fn prefetch(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        address: usize,
        bytes: usize,
        to: Place,
    ) -> Result<(), Code> {
        if !self.machine.concurrent {
            return Err(Code::INVALID_DEVICE);
        }
        let (base, pages) = self.memory.prefetchable(address, bytes)?;
        let batch = Batch {
            discard: false,
            to: Some(to),
        };
        self.enqueue_batch(core, stream, vec![(base, pages, batch)]);
        Ok(())
    }

    /// Enqueues checked ranges as one piece of work.
    pub(crate) fn enqueue_batch(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        ranges: Vec<(usize, Range<usize>, Batch)>,
    ) -> Arc<Completion> {
        self.now += self.machine.cost.enqueue;
        let item = |(base, pages, batch)| Item {
            id: self.memory.enqueued_id(base),
            base,
            pages,
            batch,
        };
        let items: Vec<_> = ranges.into_iter().map(item).collect();
        for item in &items {
            if let (Some(to), Some(managed)) = (item.batch.to, self.managed.get_mut(item.base)) {
                managed.change_advice(&item.pages, |advice| advice.last_prefetch = Some(to));
            }
        }
        let (core, device) = (core.clone(), stream.device);
        self.enqueue(stream, move |start| {
            core.state.lock().run_batch(device, items, start)
        })
    }

    /// Discards and prefetches ranges; returns the end of the work.
    fn run_batch(&mut self, device: usize, items: Vec<Item>, start: Duration) -> Duration {
        let first_record = self.records.activity.mark();
        self.records.activity.now = start;
        let mut cost = Duration::ZERO;
        let (mut routes, mut duplicated) = (Vec::new(), false);
        let (mut moves, mut between, mut made) = (false, true, false);
        for Item {
            id,
            base,
            pages,
            batch,
        } in items
        {
            if !self.memory.is_still(id, base) {
                continue;
            }
            if batch.discard {
                self.uvm().discard(base, pages.clone());
            }
            let Some(to) = batch.to else { continue };
            if base == SYSTEM {
                self.forget_untouched(&pages);
            }
            let (time, moved) = self.uvm().prefetch(base, pages, to);
            cost += time;
            let target = to.processor();
            routes.extend(Devices::migrations(moved.sources.iter(), target));
            moves |= moved.bytes() > 0;
            duplicated |= moved.duplicated;
            between &= moved.bytes() == moved.between_devices;
            made |= moved.populated > 0 && target == HOST;
        }
        let machine = &self.machine;
        // Fresh pages of a device need no copy that would have to be set up; those of the host take as long as a copy.
        cost += match moves || made {
            true if moves && between && !made => machine.cost.peer_prefetch,
            true => machine.cost.prefetch,
            false => machine.cost.prefetch_resident,
        };
        if moves {
            let end = self.devices.carry(device, routes, start, cost);
            let devices = &self.devices;
            let time_of =
                |from, to, bytes| at_rate(bytes, devices.prefetch_rate(from, to, duplicated));
            let activity = &mut self.records.activity;
            activity.transfers_end(first_record, end, time_of);
            return end;
        }
        self.devices[device].worked_until(start + cost);
        start + cost
    }
}
