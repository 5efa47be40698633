//! Moving pages: bringing them somewhere, and recording where they are.

use std::ops::Range;
use std::time::Duration;

use cuda_um_cost::CostModel;

use super::activity::MapCause;
use super::address_space::PAGE;
use super::allocation::Left;
use super::page::{BLOCK_PAGES, HOST, Page, Processor, Processors};
use super::state::{Machine, State};

/// Bytes that changed place, by way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) to_device: u64,
    pub(crate) to_host: u64,
    pub(crate) between_devices: u64,
    pub(crate) populated: u64,
    /// Of the populated bytes, those that lie beyond what the host's caches hold of the allocation.
    pub(crate) cold: u64,
    /// Of the populated bytes, those that were discarded on a device before.
    pub(crate) discarded: u64,
}

/// What the host's caches hold of one piece of memory. Measured times for each page are the same from 1 to 16 MiB and nearly twice as
/// long at 256 MiB.
pub(crate) const HOST_CACHE_BYTES: usize = 32 << 20;

impl Moved {
    pub(crate) fn bytes(&self) -> u64 {
        self.to_device + self.to_host + self.between_devices
    }

    /// What populating took on the host: finding, clearing and mapping each page.
    pub(crate) fn populated_on_host(&self, cost: &CostModel) -> Duration {
        let pages = |bytes: u64| (bytes / PAGE as u64) as u32;
        cost.host_populate_page * pages(self.populated) + cost.host_cold_page * pages(self.cold)
    }
}

impl State {
    /// Makes `pages`, all in state `page` and in one block, resident at `processor`: as a duplicate, or alone.
    #[expect(
        clippy::too_many_arguments,
        reason = "the pages and their state travel together"
    )]
    pub(crate) fn bring(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        pages: Range<usize>,
        page: Page,
        duplicate: bool,
        moved: &mut Moved,
    ) {
        let bytes = (pages.len() * PAGE) as u64;
        let here = page.resident.contains(processor);
        let charged = self
            .allocations
            .get(&base)
            .is_some_and(|allocation| allocation.charged > 0);
        if !here
            && !charged
            && let Some(ordinal) = processor.ordinal()
        {
            let keep = Some((base, pages.start / BLOCK_PAGES));
            if self.make_room(machine, ordinal, bytes, keep).is_err() {
                return self.map_without_room(machine, processor, base, pages, page);
            }
        }
        let mut resident = Processors::only(processor);
        if page.resident.is_empty() {
            moved.populated += bytes;
            if pages.start >= HOST_CACHE_BYTES / PAGE {
                moved.cold += bytes;
            }
            let discarded = self.managed(base).map_or(0, |(managed, _)| {
                managed.left_to_host(&pages, Left::Discarded)
            });
            moved.discarded += (discarded * PAGE) as u64;
            self.counters.populated_bytes += bytes;
        } else if here {
            self.counters.collapses += pages.len() as u64;
        } else {
            self.count_move(page.resident, processor, base, &pages, moved);
            if duplicate {
                resident = page.resident.with(processor);
                self.counters.read_duplications += pages.len() as u64;
            } else if page.resident.len() > 1 {
                self.counters.collapses += pages.len() as u64;
            }
        }
        self.place(
            machine,
            base,
            pages,
            Page {
                resident,
                mapped: Processors::NONE,
            },
        );
    }

    /// A device full of explicit allocations reaches managed pages over the link instead.
    fn map_without_room(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        pages: Range<usize>,
        page: Page,
    ) {
        self.counters.remote_accesses += pages.len() as u64;
        let resident = if page.resident.is_empty() {
            Processors::only(HOST)
        } else {
            page.resident
        };
        let mapped = page.mapped.with(processor);
        let at = resident.device_first().unwrap_or(HOST);
        self.activity
            .remote_map(processor, at, MapCause::OutOfMemory, base, &pages);
        self.place(machine, base, pages, Page { resident, mapped });
    }

    /// Counts pages that come from one of `from`.
    pub(crate) fn count_move(
        &mut self,
        from: Processors,
        to: Processor,
        base: usize,
        pages: &Range<usize>,
        moved: &mut Moved,
    ) {
        let bytes = (pages.len() * PAGE) as u64;
        self.activity.transfer(from, to, base, pages);
        if to == HOST {
            moved.to_host += bytes;
            self.counters.bytes_to_host += bytes;
            self.counters.transfers_to_host += 1;
        } else if from.contains(HOST) {
            moved.to_device += bytes;
            self.counters.bytes_to_device += bytes;
            self.counters.transfers_to_device += 1;
        } else {
            moved.between_devices += bytes;
            self.counters.bytes_device_to_device += bytes;
        }
    }

    /// Records where pages are now, and lets the host touch them or not.
    pub(crate) fn place(
        &mut self,
        machine: &Machine,
        base: usize,
        pages: Range<usize>,
        page: Page,
    ) {
        let Some(allocation) = self.allocations.get_mut(&base) else {
            return;
        };
        let charged = allocation.charged > 0;
        let Some(managed) = allocation.managed_mut() else {
            return;
        };
        let access = machine.host_access(page);
        for (run, old) in managed.pages.overlapping(&pages) {
            let run = run.start.max(pages.start)..run.end.min(pages.end);
            let bytes = (run.len() * PAGE) as u64;
            if machine.host_access(*old) != access {
                machine
                    .space
                    .protect(base + run.start * PAGE..base + run.end * PAGE, access);
            }
            if !charged {
                for ordinal in old.resident.iter().filter_map(Processor::ordinal) {
                    self.devices[ordinal].managed_bytes -= bytes;
                }
                for ordinal in page.resident.iter().filter_map(Processor::ordinal) {
                    self.devices[ordinal].managed_bytes += bytes;
                }
            }
        }
        managed.left.remove(pages.clone());
        managed.pages.insert(pages, page);
    }
}
