//! Prefetch and discard of managed memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::activity::Cause;
use super::address_space::PAGE;
use super::allocation::{Left, blocks};
use super::core::Core;
use super::memory::{Memory, POISON};
use super::migration::Moved;
use super::page::{HOST, Page, Processor};
use super::place::Place;
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};
use cuda_um_cost::at_rate;

/// What to do with a range of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    /// Forget the contents first.
    pub(crate) discard: bool,
    /// Then prefetch.
    pub(crate) to: Option<Place>,
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
        if !core.machine.concurrent {
            return Err(Code::INVALID_DEVICE);
        }
        let Some((base, pages)) = self.prefetchable(&core.machine, address, bytes)? else {
            return Ok(());
        };
        self.enqueue_batch(
            core,
            stream,
            vec![(
                base,
                pages,
                Batch {
                    discard: false,
                    to: Some(to),
                },
            )],
        );
        Ok(())
    }

    /// The managed pages of a range; none where it is system memory that this device can move by itself.
    pub(crate) fn prefetchable(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
    ) -> Result<Option<(usize, Range<usize>)>, Code> {
        if bytes > 0
            && machine.profile.pageable_memory_access
            && self.find(machine, address, bytes)?.memory == Memory::Pageable
        {
            return Ok(None);
        }
        self.managed_range(machine, address, bytes).map(Some)
    }

    /// Enqueues checked ranges as one piece of work.
    pub(crate) fn enqueue_batch(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        ranges: Vec<(usize, Range<usize>, Batch)>,
    ) -> Arc<Completion> {
        self.now += core.machine.cost.enqueue;
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|(base, pages, batch)| (self.named(base), base, pages, batch))
            .collect();
        for (_, base, pages, batch) in &ranges {
            if let (Some(to), Some(managed)) = (
                batch.to,
                self.allocations
                    .get_mut(base)
                    .and_then(|allocation| allocation.managed_mut()),
            ) {
                managed.change_advice(pages.clone(), |advice| advice.last_prefetch = Some(to));
            }
        }
        let device = stream.device;
        let work = Box::new(move |core: &Arc<Core>, start: Duration| {
            let mut state = core.state.lock();
            let mark = state.activity.mark();
            state.activity.now = start;
            let mut cost = Duration::ZERO;
            let (mut inwards, mut outwards, mut made) = (false, false, false);
            for (allocation, base, pages, batch) in ranges {
                if !state.is_still(allocation, base) {
                    continue;
                }
                if batch.discard {
                    state.discard(&core.machine, base, pages.clone());
                }
                let Some(to) = batch.to else { continue };
                let (time, moved) = state.move_pages(&core.machine, base, pages, to);
                cost += time;
                let (moves, home) = (moved.bytes() > 0, to.processor() == HOST);
                inwards |= moves && !home;
                outwards |= moves && home;
                made |= moved.populated > 0 && home;
            }
            // A device's fresh pages need no copy that would have to be set up; the host's are as dear as a copy.
            cost += if inwards || outwards || made {
                core.machine.cost.prefetch
            } else {
                core.machine.cost.prefetch_resident
            };
            if inwards || outwards {
                let end = state.take_link(device, !inwards, start, cost);
                let takes = |to, bytes| at_rate(bytes, prefetch_rate(&core.machine, to));
                state.activity.transfers_end(mark, end, takes);
                return end;
            }
            let device = &mut state.devices[device];
            device.end = device.end.max(start + cost);
            start + cost
        });
        self.enqueue(core, stream, Vec::new(), work)
    }

    fn move_pages(
        &mut self,
        machine: &Machine,
        base: usize,
        pages: Range<usize>,
        to: Place,
    ) -> (Duration, Moved) {
        let target = to.processor();
        let mut moved = Moved::default();
        let mut cost = Duration::ZERO;
        self.activity.cause = Cause::User;
        for (block, part) in blocks(pages) {
            cost += machine.cost.prefetch_block;
            self.mark_used(base, block);
            let Some((managed, _)) = self.managed(base) else {
                break;
            };
            for (run, page, advice) in managed.runs(&part) {
                if !page.resident.contains(target) {
                    let duplicate = advice.read_mostly && !page.resident.is_empty();
                    self.bring(
                        machine,
                        target,
                        base,
                        run.clone(),
                        page,
                        duplicate,
                        &mut moved,
                    );
                    if target == HOST && page.resident.is_empty() {
                        self.leave(base, run, Left::Unmapped);
                    }
                }
            }
        }
        self.counters.prefetched_bytes += moved.bytes();
        let rate = prefetch_rate(machine, target);
        if moved.bytes() + moved.populated > 0 {
            // Looking at a block is hidden behind its copy.
            cost = at_rate(moved.bytes(), rate);
            cost += if target == HOST {
                // The pages are found and cleared; mapping them is left to the host's first touch.
                let pages = (moved.populated / PAGE as u64) as u32;
                let whole = moved.populated_on_host(&machine.cost);
                whole.saturating_sub(machine.cost.host_map_page * pages)
            } else {
                at_rate(moved.populated, machine.cost.device_populate_rate)
            };
        }
        (cost, moved)
    }

    /// Leaves something to the host's next touch of pages.
    fn leave(&mut self, base: usize, pages: Range<usize>, left: Left) {
        let allocation = self.allocations.get_mut(&base);
        if let Some(managed) = allocation.and_then(|allocation| allocation.managed_mut()) {
            managed.left.insert(pages, left);
        }
    }

    /// Forgets the contents of pages: reading before writing gives anything, here a pattern.
    pub(crate) fn discard(&mut self, machine: &Machine, base: usize, pages: Range<usize>) {
        let on_device = |page: &Page| page.resident.iter().any(|at| at != HOST);
        let Some((managed, _)) = self.managed(base) else {
            return;
        };
        let runs = managed.runs(&pages).into_iter();
        let runs: Vec<_> = runs.filter(|(_, page, _)| on_device(page)).collect();
        self.place(machine, base, pages.clone(), Page::default());
        for (run, ..) in runs {
            self.leave(base, run, Left::Discarded);
        }
        let range = base + pages.start * PAGE..base + pages.end * PAGE;
        machine.space.discard(range.clone());
        if range.len() <= 1 << 20 {
            machine.space.fill(range, POISON);
        }
    }
}

/// Bytes a second of a prefetch to `target`.
fn prefetch_rate(machine: &Machine, target: Processor) -> f64 {
    match target {
        HOST => machine.cost.prefetch_to_host_rate,
        _ => machine.cost.prefetch_to_device_rate,
    }
}
