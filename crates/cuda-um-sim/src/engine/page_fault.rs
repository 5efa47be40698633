//! Touching managed pages: which faults a touch raises, and what they bring.

use std::ops::Range;
use std::time::Duration;

use super::activity::{Cause, MapCause, Service};
use super::address_space::PAGE;
use super::allocation::{Managed, blocks};
use super::migration::Moved;
use super::page::{
    BLOCK_PAGES, CPU_FAULT_WIDTH, FaultPlan, GPU_FAULT_BLOCKS, GPU_FAULT_WIDTH, HOST, LEAF_PAGES,
    Page, Processor, Processors, mask, plan_faults, plan_faults_with,
};
use super::reach::Reach;
use super::state::{Machine, State};
use cuda_um_cost::at_rate;

/// What an access of a range took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Touch {
    /// Time for faults and the copies that they caused.
    pub(crate) cost: Duration,
    /// Bytes reached over the link.
    pub(crate) remote_bytes: u64,
    /// Blocks that the groups served last belong to, and how many groups these were.
    window: (u32, u32),
}

impl Touch {
    /// How many of the next block's groups are served along with those of the blocks before it.
    fn shared_groups(&self) -> u32 {
        match self.window {
            (GPU_FAULT_BLOCKS.., _) => 0,
            (_, served) => served,
        }
    }

    /// Of a block's groups, those that are not served along with the ones of the blocks before it: a kernel faults in several blocks
    /// at the same time.
    fn fresh_groups(&mut self, groups: u32) -> u32 {
        let (blocks, served) = match self.window {
            (GPU_FAULT_BLOCKS.., _) => (0, 0),
            window => window,
        };
        self.window = (blocks + u32::from(groups > 0), served.max(groups));
        groups.saturating_sub(served)
    }
}

impl State {
    /// `processor` touches `pages` of the managed allocation at `base`.
    pub(crate) fn touch(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        pages: Range<usize>,
        write: bool,
    ) -> Touch {
        let mut touch = Touch::default();
        self.activity.cause = Cause::Coherence;
        for (block, part) in blocks(pages) {
            self.touch_block(machine, processor, base, block, part, write, &mut touch);
        }
        touch
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of `touch`, split for its length alone"
    )]
    fn touch_block(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        block: usize,
        part: Range<usize>,
        write: bool,
        touch: &mut Touch,
    ) {
        self.mark_used(base, block);
        let Some((managed, count)) = self.managed(base) else {
            return;
        };
        let first = block * BLOCK_PAGES;
        let whole = first..(first + BLOCK_PAGES).min(count);
        let leaf = |page: usize| ((page - first) / LEAF_PAGES) as u32;
        let leaf_mask = |pages: &Range<usize>| mask(leaf(pages.start), leaf(pages.end - 1) + 1);
        let leaves = leaf(whole.end - 1) + 1;

        let (mut need, mut soft, mut absent) = (0u32, 0u32, 0u32);
        let mut density = true;
        let mut remote_pages = 0u64;
        let mut mapped = Vec::new();
        for (pages, page, advice) in managed.runs(&whole) {
            if !page.resident.contains(processor) {
                absent |= leaf_mask(&pages);
            }
            let pages = pages.start.max(part.start)..pages.end.min(part.end);
            if pages.is_empty() {
                continue;
            }
            // A block that prefers the host is not completed by faults of the device.
            density &= processor == HOST
                || advice
                    .preferred
                    .is_none_or(|place| place.processor() != HOST);
            match self.reach(machine, processor, page, advice, write) {
                Reach::Local => {}
                Reach::Collapse | Reach::Fault => need |= leaf_mask(&pages),
                Reach::Remote => {
                    remote_pages += pages.len() as u64;
                    // Mapped by advice, which a migration does not end: the host's view has to follow.
                    let mut followed = page;
                    if processor == HOST {
                        followed.mapped = page.mapped.with(HOST);
                    }
                    if write && page.resident.len() > 1 || followed != page {
                        mapped.push((pages, followed, None));
                    }
                }
                Reach::MapRemote(holder) => {
                    soft |= leaf_mask(&pages);
                    remote_pages += pages.len() as u64;
                    mapped.push((pages, page, Some(holder)));
                }
            }
        }

        let width = if processor == HOST {
            CPU_FAULT_WIDTH
        } else {
            GPU_FAULT_WIDTH
        };
        let have = !absent & mask(0, leaves) & !need;
        let mark = self.activity.mark();
        let shared = match processor {
            HOST => 0,
            _ => touch.shared_groups() as usize,
        };
        let begin = self.activity.now + touch.cost;
        let plan = plan_faults(need, have, leaves, width, density);
        let maps = plan_faults(soft & !need, 0, leaves, width, false);
        self.count_faults(machine, processor, plan, maps, touch);
        self.counters.remote_accesses += remote_pages;
        touch.remote_bytes += remote_pages * PAGE as u64;

        for (pages, page, holder) in mapped {
            match holder {
                Some(holder) => self.map_remote(machine, processor, holder, base, pages, page),
                None => {
                    let mut kept = page;
                    if write && page.resident.len() > 1 {
                        self.counters.collapses += pages.len() as u64;
                        let keep = page.resident.device_first().unwrap_or(HOST);
                        kept.resident = Processors::only(keep);
                    }
                    self.place(machine, base, pages, kept);
                }
            }
        }
        let mut moved = Moved::default();
        for leaf in (0..leaves).filter(|leaf| plan.bring & (1 << leaf) != 0) {
            let pages = first + leaf as usize * LEAF_PAGES
                ..(first + (leaf as usize + 1) * LEAF_PAGES).min(whole.end);
            self.bring_faulted(machine, processor, base, pages, &part, write, &mut moved);
        }
        let cost = &machine.cost;
        if self.activity.memory {
            let mut groups = Vec::new();
            let mut note = |faulting, brought| groups.push((faulting, brought));
            plan_faults_with(need, have, leaves, width, density, &mut note);
            plan_faults_with(soft & !need, 0, leaves, width, false, &mut note);
            let service = Service {
                cost,
                processor,
                faults: processor == HOST || machine.concurrent,
                write,
                block: base + first * PAGE,
                touched: part.start - first..part.end - first,
                groups: &groups,
                shared,
            };
            self.activity.serve(mark, begin, &service);
        }
        touch.cost += at_rate(moved.bytes(), cost.fault_rate);
        touch.cost += match processor {
            HOST => {
                let discarded = (moved.discarded / PAGE as u64) as u32;
                moved.populated_on_host(cost) + cost.host_discarded_page * discarded
            }
            _ => at_rate(moved.populated, cost.device_populate_rate),
        };
    }

    fn count_faults(
        &mut self,
        machine: &Machine,
        processor: Processor,
        plan: FaultPlan,
        maps: FaultPlan,
        touch: &mut Touch,
    ) {
        let faults = plan.faults + maps.faults;
        if processor == HOST {
            self.counters.cpu_faults += u64::from(faults);
            touch.cost += machine.cost.cpu_fault * faults;
        } else if machine.concurrent {
            let groups = touch.fresh_groups(plan.groups + maps.groups);
            self.counters.gpu_faults += u64::from(faults);
            self.counters.gpu_fault_groups += u64::from(groups);
            touch.cost += machine.cost.gpu_fault * faults + machine.cost.gpu_fault_group * groups;
        }
    }

    /// Maps pages that stay at `holder`, where fresh ones are populated.
    fn map_remote(
        &mut self,
        machine: &Machine,
        processor: Processor,
        holder: Processor,
        base: usize,
        pages: Range<usize>,
        page: Page,
    ) {
        if page.resident.is_empty() {
            self.counters.populated_bytes += (pages.len() * PAGE) as u64;
        }
        let resident = if page.resident.is_empty() {
            Processors::only(holder)
        } else {
            page.resident
        };
        let cause = if machine.coherent {
            MapCause::Coherence
        } else {
            MapCause::Policy
        };
        self.activity
            .remote_map(processor, holder, cause, base, &pages);
        self.place(
            machine,
            base,
            pages,
            Page {
                resident,
                mapped: page.mapped.with(processor),
            },
        );
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of `touch_block`, split for its length alone"
    )]
    fn bring_faulted(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        leaf: Range<usize>,
        touched: &Range<usize>,
        write: bool,
        moved: &mut Moved,
    ) {
        let Some((managed, _)) = self.managed(base) else {
            return;
        };
        for (run, page, advice) in managed.runs(&leaf) {
            // Only the touched part of a run is written; the rest is brought along as if read.
            let inside = run.start.max(touched.start)..run.end.min(touched.end);
            let parts = if write && !inside.is_empty() {
                vec![
                    (run.start..inside.start, false),
                    (inside.clone(), true),
                    (inside.end..run.end, false),
                ]
            } else {
                vec![(run, false)]
            };
            for (pages, write) in parts.into_iter().filter(|(pages, _)| !pages.is_empty()) {
                match self.reach(machine, processor, page, advice, write) {
                    Reach::Fault | Reach::Collapse => {
                        self.bring(
                            machine,
                            processor,
                            base,
                            pages,
                            page,
                            advice.read_mostly && !write,
                            moved,
                        );
                    }
                    Reach::Local | Reach::Remote | Reach::MapRemote(_) => {}
                }
            }
        }
    }

    /// A managed allocation's pages and their number.
    pub(crate) fn managed(&self, base: usize) -> Option<(&Managed, usize)> {
        let allocation = self.allocations.get(&base)?;
        Some((allocation.managed()?, allocation.page_count()))
    }
}
