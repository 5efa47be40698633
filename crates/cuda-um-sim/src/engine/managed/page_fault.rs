//! Page faults: an access of managed pages, the faults that it raises, and the pages that they bring.

mod block;
mod classes;

use std::ops::Range;
use std::time::Duration;

use super::allocation::{Run, SYSTEM};
use super::driver::UvmDriver;
use super::fault_plan::{
    CPU_FAULT_WIDTH, FaultPlan, GPU_FAULT_BLOCKS, GPU_FAULT_WIDTH, mask, plan_faults,
    plan_faults_with,
};
use super::migration::Moved;
use super::page::{BLOCK_PAGES, HOST, Page, Processor, Processors, blocks, common};
use super::reach::Reach;
use crate::engine::activity::{Cause, MapCause, Service};
use crate::engine::address_space::PAGE;
use block::{Block, Part};
use classes::Classes;
use cuda_um_cost::at_rate;

/// The price of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Price {
    /// Time for faults and the copies that they caused.
    pub(crate) time: Duration,
    /// Bytes reached over the link to the host.
    pub(crate) remote_bytes: u64,
    /// Bytes reached in the memory of other devices; `time` has the time for them.
    pub(crate) peer_bytes: u64,
}

impl UvmDriver<'_> {
    /// `processor` touches `pages` of the managed allocation at `base`.
    pub(crate) fn touch(
        &mut self,
        processor: Processor,
        base: usize,
        pages: Range<usize>,
        write: bool,
    ) -> Price {
        self.touch_all(processor, base, &[(pages, write)])
    }

    /// `processor` touches ranges of pages, in ascending order, at the same time; it writes those with `true`.
    pub(crate) fn touch_all(
        &mut self,
        processor: Processor,
        base: usize,
        touched: &[(Range<usize>, bool)],
    ) -> Price {
        self.records.activity.cause = Cause::Coherence;
        let mut touch = Touch {
            driver: self,
            processor,
            base,
            price: Price::default(),
            window: Window::default(),
        };
        let parts = touched.iter().flat_map(|(pages, write)| {
            blocks(pages.clone()).map(|(block, part)| (block, (part, *write)))
        });
        let mut parts = parts.peekable();
        while let Some((block, part)) = parts.next() {
            let mut touched = vec![part];
            while let Some((_, part)) = parts.next_if(|(next, _)| *next == block) {
                touched.push(part);
            }
            touch.block(block, touched);
        }
        touch.price
    }
}

/// Groups of faults that a kernel has open in several blocks at the same time. The driver serves them together.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    blocks: u32,
    groups: u32,
}

impl Window {
    /// The number of groups with which groups of the next block are served.
    fn open_groups(self) -> u32 {
        match self.blocks {
            GPU_FAULT_BLOCKS.. => 0,
            _ => self.groups,
        }
    }

    /// Adds a block with so many groups; returns how many of them are not served together with groups of earlier blocks.
    fn add_block(&mut self, groups: u32) -> u32 {
        if self.blocks >= GPU_FAULT_BLOCKS {
            *self = Window::default();
        }
        let open = self.groups;
        self.blocks += u32::from(groups > 0);
        self.groups = open.max(groups);
        groups.saturating_sub(open)
    }
}

/// An access of managed pages by one processor.
struct Touch<'t, 's> {
    driver: &'t mut UvmDriver<'s>,
    processor: Processor,
    base: usize,
    price: Price,
    window: Window,
}

/// The faults of a block: those that bring pages, and those that map them. Masks have one bit for each 64 KiB page.
struct Plans {
    faulting: u32,
    /// Pages that fault only to be mapped.
    mapping: u32,
    /// Pages that are wholly resident.
    have: u32,
    leaves: u32,
    width: u32,
    density: bool,
    bring: FaultPlan,
    map: FaultPlan,
}

/// The records, the time and the open groups of faults before a block.
struct Before {
    records: usize,
    time: Duration,
    groups: usize,
}

impl Touch<'_, '_> {
    /// The processor touches parts of a block.
    fn block(&mut self, block: usize, touched: Vec<Part>) {
        self.driver.managed.mark_used(self.base, block);
        let Some(managed) = self.driver.managed.get(self.base) else {
            return;
        };
        let first = block * BLOCK_PAGES;
        let block = Block {
            pages: first..(first + BLOCK_PAGES).min(managed.count),
            touched,
        };
        let classes = self.classify(&block, managed);
        let plans = self.plan(&block, &classes);

        let before = Before {
            records: self.driver.records.activity.mark(),
            time: self.driver.records.activity.now + self.price.time,
            groups: match self.processor {
                HOST => 0,
                _ => self.window.open_groups() as usize,
            },
        };
        self.count(&plans, &classes);
        self.map(classes);
        let moved = self.bring(&block, plans.bring.bring);
        self.record(&block, &plans, &before);
        self.bill(&moved);
    }

    fn plan(&self, block: &Block, classes: &Classes) -> Plans {
        let width = match self.processor {
            HOST => CPU_FAULT_WIDTH,
            _ => GPU_FAULT_WIDTH,
        };
        let (leaves, density) = (block.leaves(), !classes.no_density);
        let have = !classes.absent & mask(0, leaves) & !classes.faulting;
        let mapping = classes.mapping & !classes.faulting;
        Plans {
            faulting: classes.faulting,
            mapping,
            have,
            leaves,
            width,
            density,
            bring: plan_faults(classes.faulting, have, leaves, width, density),
            map: plan_faults(mapping, 0, leaves, width, false),
        }
    }

    /// Counts the faults of a block, and adds their time to the price.
    fn count(&mut self, plans: &Plans, classes: &Classes) {
        let faults = plans.bring.faults + plans.map.faults;
        let machine = self.driver.machine;
        let counters = &mut self.driver.records.counters;
        if self.processor == HOST {
            counters.cpu_faults += u64::from(faults);
            self.price.time += machine.cost.cpu_fault * faults;
        } else if machine.concurrent {
            let groups = plans.bring.groups + plans.map.groups;
            let groups = self.window.add_block(groups);
            counters.gpu_faults += u64::from(faults);
            counters.gpu_fault_groups += u64::from(groups);
            self.price.time +=
                machine.cost.gpu_fault * faults + machine.cost.gpu_fault_group * groups;
        }
        counters.remote_accesses += classes.remote_pages;
        let mut remote_bytes = classes.remote_pages * PAGE as u64;
        for &(peer, pages) in &classes.peer_pages {
            let (bytes, own) = (pages * PAGE as u64, self.processor.ordinal());
            remote_bytes -= bytes;
            self.price.peer_bytes += bytes;
            let devices = &self.driver.devices;
            self.price.time +=
                own.map_or(Duration::ZERO, |own| devices.peer_time(peer, own, bytes));
        }
        self.price.remote_bytes += remote_bytes;
    }

    /// Maps the pages that stay where they are.
    fn map(&mut self, classes: Classes) {
        for (run, holder) in classes.to_map {
            self.map_remote(run, holder);
        }
        for (run, page) in classes.to_update {
            if page.resident != run.page.resident {
                self.driver.records.counters.collapses += run.pages.len() as u64;
            }
            self.driver.place(self.base, run.pages, page);
        }
    }

    /// Maps pages at this processor that stay at `holder`. Fresh pages are populated there.
    fn map_remote(&mut self, run: Run, holder: Processor) {
        let Run { pages, page, .. } = run;
        let mut resident = page.resident;
        if resident.is_empty() {
            resident = Processors::only(holder);
            self.driver.records.counters.populated_bytes += (pages.len() * PAGE) as u64;
        }
        let cause = if self.driver.machine.coherent {
            MapCause::Coherence
        } else {
            MapCause::Policy
        };
        let activity = &mut self.driver.records.activity;
        activity.remote_map(self.processor, holder, cause, self.base, &pages);
        let mapped = page.mapped.with(self.processor);
        self.driver
            .place(self.base, pages, Page { resident, mapped });
    }

    /// Brings the 64 KiB pages of a mask.
    fn bring(&mut self, block: &Block, leaves: u32) -> Moved {
        let mut moved = Moved::default();
        for leaf in (0..block.leaves()).filter(|leaf| leaves & (1 << leaf) != 0) {
            let pages = block.leaf_pages(leaf);
            match self.base {
                // Beside the touched pages may be any other memory of the program.
                SYSTEM => block.touched.iter().for_each(|(part, _)| {
                    self.bring_leaf(common(&pages, part), &block.touched, &mut moved);
                }),
                _ => self.bring_leaf(pages, &block.touched, &mut moved),
            }
        }
        moved
    }

    fn bring_leaf(&mut self, leaf: Range<usize>, touched: &[Part], moved: &mut Moved) {
        let Some(managed) = self.driver.managed.get(self.base) else {
            return;
        };
        for run in managed.runs(&leaf) {
            // Only the written parts of a run are written; the rest is brought as if it were read.
            let (mut parts, mut at) = (Vec::new(), run.pages.start);
            for (written, _) in touched.iter().filter(|(_, write)| *write) {
                let inside = common(&run.pages, written);
                if !inside.is_empty() {
                    parts.extend([(at..inside.start, false), (inside.clone(), true)]);
                    at = inside.end;
                }
            }
            parts.push((at..run.pages.end, false));
            for (pages, write) in parts.into_iter().filter(|(pages, _)| !pages.is_empty()) {
                let part = Run {
                    pages,
                    ..run.clone()
                };
                match self.driver.reach(self.processor, &part, write) {
                    Reach::Fault | Reach::Collapse => {
                        let duplicate = part.advice.read_mostly && !write;
                        self.driver
                            .bring(self.processor, self.base, part, duplicate, moved);
                    }
                    Reach::Local | Reach::Remote | Reach::MapRemote(_) => {}
                }
            }
        }
    }

    /// Records the faults of a block, and times the records of the pages that they brought.
    fn record(&mut self, block: &Block, plans: &Plans, before: &Before) {
        if !self.driver.records.activity.memory {
            return;
        }
        let first = block.pages.start;
        let groups = plans.groups();
        let service = Service {
            cost: &self.driver.machine.cost,
            devices: self.driver.devices,
            processor: self.processor,
            faults: self.processor == HOST || self.driver.machine.concurrent,
            write: block.touched.iter().any(|(_, write)| *write),
            base: self.base,
            block: self.base + first * PAGE,
            touched: &block.touched,
            groups: &groups,
            shared: before.groups,
        };
        let activity = &mut self.driver.records.activity;
        activity.serve(before.records, before.time, &service);
    }

    /// Adds the time of the pages that a block's faults brought.
    fn bill(&mut self, moved: &Moved) {
        let cost = &self.driver.machine.cost;
        let devices = &self.driver.devices;
        self.price.time += moved.copied_at(|from| devices.fault_rate(from, self.processor));
        self.price.time += match self.processor {
            HOST => {
                let discarded = (moved.discarded / PAGE as u64) as u32;
                moved.populated_on_host(cost) + cost.host_discarded_page * discarded
            }
            _ => at_rate(moved.populated, cost.device_populate_rate),
        };
    }
}

impl Plans {
    /// Each group of faults: the 64 KiB pages that faulted, and those that it brought.
    fn groups(&self) -> Vec<(u32, u32)> {
        let &Plans {
            faulting,
            mapping,
            have,
            leaves,
            width,
            density,
            ..
        } = self;
        let mut groups = Vec::new();
        let mut add = |faulting, brought| groups.push((faulting, brought));
        plan_faults_with(faulting, have, leaves, width, density, &mut add);
        plan_faults_with(mapping, 0, leaves, width, false, &mut add);
        groups
    }
}
