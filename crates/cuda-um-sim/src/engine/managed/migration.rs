//! Migration: brings pages to a processor, and records where they are.

use std::ops::Range;
use std::time::Duration;

use cuda_um_cost::{CostModel, at_rate};

use super::allocation::{Left, Run};
use super::driver::UvmDriver;
use super::page::{BLOCK_PAGES, HOST, Page, Processor, Processors, blocks, common};
use crate::engine::activity::MapCause;
use crate::engine::address_space::PAGE;

/// Bytes that migrated, by direction, and bytes that were populated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) to_device: u64,
    pub(crate) to_host: u64,
    pub(crate) between_devices: u64,
    /// True if some of them were only duplicated.
    pub(crate) duplicated: bool,
    /// The processors that the bytes came from.
    pub(crate) sources: Processors,
    pub(crate) populated: u64,
    /// Of the populated bytes, those beyond the part of the allocation that the host's caches hold.
    pub(crate) cold: u64,
    /// Of the populated bytes, those that were discarded on a device before.
    pub(crate) discarded: u64,
}

/// Bytes of one allocation that the host's caches hold. Measured times for each page are the same from 1 to 16 MiB, and nearly twice as
/// long at 256 MiB.
pub(crate) const HOST_CACHE_BYTES: usize = 32 << 20;

impl Moved {
    pub(crate) fn bytes(&self) -> u64 {
        self.to_device + self.to_host + self.between_devices
    }

    /// Time of the copies: from the host or to it, and from a device to another one, at the rate of each source.
    pub(crate) fn copied_at(&self, rate: impl Fn(Processor) -> f64) -> Duration {
        let of_host = at_rate(self.bytes() - self.between_devices, rate(HOST));
        let peer = self.sources.without(HOST).device_first();
        peer.map_or(of_host, |peer| {
            of_host + at_rate(self.between_devices, rate(peer))
        })
    }

    /// Time that populating took on the host: to find, clear and map each page.
    pub(crate) fn populated_on_host(&self, cost: &CostModel) -> Duration {
        let pages = |bytes: u64| (bytes / PAGE as u64) as u32;
        cost.host_populate_page * pages(self.populated) + cost.host_cold_page * pages(self.cold)
    }
}

/// The one of several processors with a page from which it is copied.
pub(crate) fn source(from: Processors, to: Processor) -> Processor {
    match to != HOST && from.contains(HOST) {
        true => HOST,
        false => from.device_first().unwrap_or(HOST),
    }
}

impl UvmDriver<'_> {
    /// Makes pages of one block resident at `processor`: as a duplicate, or nowhere else.
    pub(super) fn bring(
        &mut self,
        processor: Processor,
        base: usize,
        run: Run,
        duplicate: bool,
        moved: &mut Moved,
    ) {
        let Run { pages, page, .. } = run;
        let bytes = (pages.len() * PAGE) as u64;
        let here = page.resident.contains(processor);
        let charged = self
            .managed
            .get(base)
            .is_some_and(|managed| managed.charged);
        if !here
            && !charged
            && let Some(ordinal) = processor.ordinal()
        {
            let keep = Some((base, pages.start / BLOCK_PAGES));
            if self.make_room(ordinal, bytes, keep).is_err() {
                return self.map_without_room(processor, base, pages, page);
            }
        }
        let mut resident = Processors::only(processor);
        if page.resident.is_empty() {
            self.count_populated(base, &pages, moved);
        } else if here {
            self.records.counters.collapses += pages.len() as u64;
        } else {
            self.count_move(page.resident, processor, base, &pages, moved);
            if duplicate {
                resident = page.resident.with(processor);
                self.records.counters.read_duplications += pages.len() as u64;
            } else if page.resident.len() > 1 {
                self.records.counters.collapses += pages.len() as u64;
            }
        }
        let mapped = Processors::NONE;
        self.place(base, pages, Page { resident, mapped });
    }

    /// Maps pages over the link: explicit allocations fill the device.
    fn map_without_room(
        &mut self,
        processor: Processor,
        base: usize,
        pages: Range<usize>,
        page: Page,
    ) {
        self.records.counters.remote_accesses += pages.len() as u64;
        let resident = if page.resident.is_empty() {
            Processors::only(HOST)
        } else {
            page.resident
        };
        let mapped = page.mapped.with(processor);
        let at = resident.device_first().unwrap_or(HOST);
        let activity = &mut self.records.activity;
        activity.remote_map(processor, at, MapCause::OutOfMemory, base, &pages);
        self.place(base, pages, Page { resident, mapped });
    }

    fn count_populated(&mut self, base: usize, pages: &Range<usize>, moved: &mut Moved) {
        let bytes = (pages.len() * PAGE) as u64;
        moved.populated += bytes;
        if pages.start >= HOST_CACHE_BYTES / PAGE {
            moved.cold += bytes;
        }
        let discarded = self
            .managed
            .get(base)
            .map_or(0, |managed| managed.left_to_host(pages, Left::Discarded));
        moved.discarded += (discarded * PAGE) as u64;
        self.records.counters.populated_bytes += bytes;
    }

    /// Counts and records the migration of pages from one of `from`.
    pub(super) fn count_move(
        &mut self,
        from: Processors,
        to: Processor,
        base: usize,
        pages: &Range<usize>,
        moved: &mut Moved,
    ) {
        let bytes = (pages.len() * PAGE) as u64;
        self.records.activity.transfer(from, to, base, pages);
        let counters = &mut self.records.counters;
        moved.sources = moved.sources.with(source(from, to));
        if to == HOST {
            moved.to_host += bytes;
            counters.bytes_to_host += bytes;
            counters.transfers_to_host += 1;
        } else if from.contains(HOST) {
            moved.to_device += bytes;
            counters.bytes_to_device += bytes;
            counters.transfers_to_device += 1;
        } else {
            moved.between_devices += bytes;
            counters.bytes_device_to_device += bytes;
        }
    }

    /// Removes an allocation: its pages are resident nowhere from now on.
    pub(crate) fn remove(&mut self, base: usize) {
        if let Some(managed) = self.managed.get(base) {
            self.place(base, 0..managed.count, Page::default());
            self.managed.remove(base);
        }
    }

    /// Records the new state of pages, and sets the host's access to them.
    pub(super) fn place(&mut self, base: usize, pages: Range<usize>, page: Page) {
        let Some(managed) = self.managed.get_mut(base) else {
            return;
        };
        let access = page.host_access();
        for (run, old) in managed.pages.overlapping(&pages) {
            let run = common(run, &pages);
            let bytes = (run.len() * PAGE) as u64;
            if old.host_access() != access && !managed.system {
                let addresses = base + run.start * PAGE..base + run.end * PAGE;
                self.machine.space.protect(addresses, access);
            }
            if !managed.charged {
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

    /// Pages hold nothing from now on: their first user populates them.
    pub(crate) fn forget(&mut self, base: usize, pages: Range<usize>) {
        // In one memory the host reaches them as before.
        let resident = match self.machine.one_memory() {
            true => Processors::only(HOST),
            false => Processors::NONE,
        };
        let mapped = Processors::NONE;
        self.place(base, pages, Page { resident, mapped });
    }

    /// Populates the pages of a range that were never touched.
    pub(crate) fn populate(&mut self, processor: Processor, base: usize, pages: &Range<usize>) {
        for (_, part) in blocks(pages.clone()) {
            let Some(managed) = self.managed.get(base) else {
                return;
            };
            for run in managed.runs(&part) {
                if run.page.resident.is_empty() {
                    self.bring(processor, base, run, false, &mut Moved::default());
                }
            }
        }
    }

    /// Ends the duplicates of pages: a copy wrote them, or they are read-mostly no more.
    pub(crate) fn collapse(&mut self, base: usize, pages: &Range<usize>) {
        let Some(managed) = self.managed.get(base) else {
            return;
        };
        for Run {
            pages,
            page,
            advice,
            ..
        } in managed.runs(pages)
        {
            if page.resident.len() > 1 {
                let preferred = advice
                    .preferred
                    .map(|place| place.processor())
                    .filter(|place| page.resident.contains(*place));
                let Some(keep) = preferred.or(page.resident.device_first()) else {
                    continue;
                };
                self.records.counters.collapses += pages.len() as u64;
                let (resident, mapped) = (Processors::only(keep), Processors::NONE);
                self.place(base, pages, Page { resident, mapped });
            }
        }
    }

    /// Ends a processor's mapping of pages that are resident elsewhere.
    pub(crate) fn unmap(&mut self, base: usize, pages: &Range<usize>, processor: Processor) {
        let Some(managed) = self.managed.get(base) else {
            return;
        };
        for Run {
            pages, mut page, ..
        } in managed.runs(pages)
        {
            if page.mapped.contains(processor) {
                page.mapped = page.mapped.without(processor);
                self.place(base, pages, page);
            }
        }
    }
}
