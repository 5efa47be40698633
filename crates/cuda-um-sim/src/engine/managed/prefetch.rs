//! Prefetch and discard of pages.

use std::ops::Range;
use std::time::Duration;

use super::allocation::{Left, Run};
use super::driver::UvmDriver;
use super::migration::Moved;
use super::page::{HOST, Processor, blocks};
use crate::engine::activity::Cause;
use crate::engine::address_space::PAGE;
use crate::engine::place::Place;
use cuda_um_cost::at_rate;

impl UvmDriver<'_> {
    /// Prefetches pages; returns the time for it and the bytes that moved.
    pub(crate) fn prefetch(
        &mut self,
        base: usize,
        pages: Range<usize>,
        to: Place,
    ) -> (Duration, Moved) {
        let target = to.processor();
        let mut moved = Moved::default();
        let mut looked_at = Duration::ZERO;
        self.records.activity.cause = Cause::User;
        for (block, part) in blocks(pages) {
            looked_at += self.machine.cost.prefetch_block;
            self.managed.mark_used(base, block);
            let Some(managed) = self.managed.get(base) else {
                break;
            };
            for run in managed.runs(&part) {
                if run.page.resident.contains(target) || self.machine.one_memory() {
                    continue;
                }
                let (pages, fresh) = (run.pages.clone(), run.page.resident.is_empty());
                let duplicate = run.advice.read_mostly && !fresh;
                moved.duplicated |= duplicate;
                self.bring(target, base, run, duplicate, &mut moved);
                if target == HOST && fresh {
                    self.leave(base, pages, Left::Unmapped);
                }
            }
        }
        self.records.counters.prefetched_bytes += moved.bytes();
        if moved.bytes() + moved.populated == 0 {
            return (looked_at, moved);
        }
        // The time to look at a block is hidden behind its copy.
        let duplicates = moved.duplicated;
        let rate = |from| self.devices.prefetch_rate(from, target, duplicates);
        let time = moved.copied_at(rate) + self.populate_time(target, &moved);
        (time, moved)
    }

    fn populate_time(&self, target: Processor, moved: &Moved) -> Duration {
        let cost = &self.machine.cost;
        match target {
            HOST => {
                // The pages are found and cleared; the host's first touch maps them.
                let pages = (moved.populated / PAGE as u64) as u32;
                let all = moved.populated_on_host(cost);
                all.saturating_sub(cost.host_map_page * pages)
            }
            _ => at_rate(moved.populated, cost.device_populate_rate),
        }
    }

    /// Leaves work to the host's next touch of pages.
    fn leave(&mut self, base: usize, pages: Range<usize>, left: Left) {
        if let Some(managed) = self.managed.get_mut(base) {
            managed.left.insert(pages, left);
        }
    }

    /// Discards the contents of pages: until they are written, they read as undefined values, here a pattern.
    pub(crate) fn discard(&mut self, base: usize, pages: Range<usize>) {
        let on_device = |run: &Run| run.page.resident.iter().any(|at| at != HOST);
        let Some(managed) = self.managed.get(base) else {
            return;
        };
        let runs = managed.runs(&pages).into_iter();
        let runs: Vec<_> = runs.filter(on_device).collect();
        let is_system = managed.system;
        self.forget(base, pages.clone());
        for run in runs {
            self.leave(base, run.pages, Left::Discarded);
        }
        if is_system {
            // The program's own memory keeps its contents: to read them is not defined.
            return;
        }
        let range = base + pages.start * PAGE..base + pages.end * PAGE;
        self.machine.space.discard(range.clone());
        self.machine.space.poison(range);
    }
}
