//! Where managed pages are: touching, moving, duplicating, collapsing, evicting.

use std::ops::Range;
use std::time::Duration;

use super::address_space::{HostAccess, PAGE};
use super::allocation::{Advice, Managed, blocks};
use super::cost::at_rate;
use super::page::{
    BLOCK_PAGES, CPU_FAULT_WIDTH, FaultPlan, GPU_FAULT_WIDTH, HOST, LEAF_PAGES, Page, Processor,
    Processors, mask, plan_faults,
};
use super::state::{Machine, State};
use super::status::Code;

/// What an access of a range took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Touch {
    /// Time for faults and the copies that they caused.
    pub(crate) cost: Duration,
    /// Bytes reached over the link.
    pub(crate) remote_bytes: u64,
}

/// Bytes that changed place, by way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) to_device: u64,
    pub(crate) to_host: u64,
    pub(crate) between_devices: u64,
    pub(crate) populated: u64,
}

impl Moved {
    pub(crate) fn bytes(&self) -> u64 {
        self.to_device + self.to_host + self.between_devices
    }
}

/// How a processor reaches a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// It is there.
    Local,
    /// It is there, and so are duplicates that a write must end.
    Collapse,
    /// Over the link; already mapped, or mapped by advice.
    Remote,
    /// Over the link, after a fault that maps it.
    MapRemote(Processor),
    /// After a fault that brings it.
    Fault,
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
    ) -> Result<Touch, Code> {
        let mut touch = Touch::default();
        for (block, part) in blocks(pages) {
            self.touch_block(machine, processor, base, block, part, write, &mut touch)?;
        }
        Ok(touch)
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
    ) -> Result<(), Code> {
        self.mark_used(base, block);
        let Some((managed, count)) = self.managed(base) else {
            return Ok(());
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
                    if write && page.resident.len() > 1 {
                        mapped.push((pages, page, None));
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
        let plan = plan_faults(need, have, leaves, width, density);
        let maps = plan_faults(soft & !need, 0, leaves, width, false);
        self.count_faults(machine, processor, plan, maps, touch);
        self.counters.remote_accesses += remote_pages;
        touch.remote_bytes += remote_pages * PAGE as u64;

        for (pages, page, holder) in mapped {
            match holder {
                Some(holder) => self.map_remote(machine, processor, holder, base, pages, page),
                None => {
                    self.counters.collapses += pages.len() as u64;
                    let keep = page.resident.device_first().unwrap_or(HOST);
                    let kept = Page {
                        resident: Processors::only(keep),
                        mapped: page.mapped,
                    };
                    self.place(machine, base, pages, kept);
                }
            }
        }
        let mut moved = Moved::default();
        for leaf in (0..leaves).filter(|leaf| plan.bring & (1 << leaf) != 0) {
            let pages = first + leaf as usize * LEAF_PAGES
                ..(first + (leaf as usize + 1) * LEAF_PAGES).min(whole.end);
            self.bring_faulted(machine, processor, base, pages, &part, write, &mut moved)?;
        }
        let cost = &machine.cost;
        touch.cost += at_rate(moved.bytes(), cost.fault_rate);
        touch.cost += match processor {
            HOST => cost.host_populate_page * (moved.populated / PAGE as u64) as u32,
            _ => at_rate(moved.populated, cost.device_populate_rate),
        };
        Ok(())
    }

    /// How `processor` reaches a page in this state and with this advice.
    fn reach(
        &self,
        machine: &Machine,
        processor: Processor,
        page: Page,
        advice: Advice,
        write: bool,
    ) -> Reach {
        if page.resident.contains(processor) {
            return if write && page.resident.len() > 1 {
                Reach::Collapse
            } else {
                Reach::Local
            };
        }
        let preferred = advice.preferred.map(|place| place.processor());
        let duplicates = advice.read_mostly && !write;
        let Some(holder) = page.resident.device_first() else {
            return match preferred {
                Some(place)
                    if place != processor
                        && !duplicates
                        && self.reachable(machine, processor, place) =>
                {
                    Reach::MapRemote(place)
                }
                _ => Reach::Fault,
            };
        };
        if duplicates || !self.reachable(machine, processor, holder) {
            return Reach::Fault;
        }
        if advice.accessed_by.contains(processor) || page.mapped.contains(processor) {
            return Reach::Remote;
        }
        if machine.coherent || preferred == Some(holder) {
            Reach::MapRemote(holder)
        } else {
            Reach::Fault
        }
    }

    /// Whether `processor` can reach memory that stays at `holder`.
    fn reachable(&self, machine: &Machine, processor: Processor, holder: Processor) -> bool {
        match (processor.ordinal(), holder.ordinal()) {
            (Some(_), None) => machine.concurrent,
            (None, Some(_)) => machine.coherent,
            (Some(from), Some(to)) => self.devices[from].peers.contains(&to),
            (None, None) => true,
        }
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
            let groups = plan.groups + maps.groups;
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
    ) -> Result<(), Code> {
        let Some((managed, _)) = self.managed(base) else {
            return Ok(());
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
                        )?;
                    }
                    Reach::Local | Reach::Remote | Reach::MapRemote(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Makes `pages`, all in state `page`, resident at `processor`: as a duplicate, or alone.
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
    ) -> Result<(), Code> {
        let bytes = (pages.len() * PAGE) as u64;
        let here = page.resident.contains(processor);
        if !here && let Some(ordinal) = processor.ordinal() {
            self.make_room(
                machine,
                ordinal,
                bytes,
                Some((base, pages.start / BLOCK_PAGES)),
            )?;
        }
        let mut resident = Processors::only(processor);
        if page.resident.is_empty() {
            moved.populated += bytes;
            self.counters.populated_bytes += bytes;
        } else if here {
            self.counters.collapses += pages.len() as u64;
        } else {
            self.count_move(page.resident, processor, bytes, moved);
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
        Ok(())
    }

    fn count_move(&mut self, from: Processors, to: Processor, bytes: u64, moved: &mut Moved) {
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
        managed.pages.insert(pages, page);
    }

    fn mark_used(&mut self, base: usize, block: usize) {
        self.use_clock += 1;
        let clock = self.use_clock;
        if let Some(managed) = self
            .allocations
            .get_mut(&base)
            .and_then(|allocation| allocation.managed_mut())
        {
            managed.used.insert(block, clock);
        }
    }

    /// Evicts the least recently used blocks from a device until `bytes` fit; `keep` stays.
    pub(crate) fn make_room(
        &mut self,
        machine: &Machine,
        ordinal: usize,
        bytes: u64,
        keep: Option<(usize, usize)>,
    ) -> Result<(), Code> {
        if self.devices[ordinal].free_bytes() >= bytes {
            return Ok(());
        }
        let device = Processor::device(ordinal);
        let mut candidates = Vec::new();
        for (&base, allocation) in &self.allocations {
            let Some(managed) = allocation.managed().filter(|_| allocation.charged == 0) else {
                continue;
            };
            for (&block, &used) in &managed.used {
                if Some((base, block)) != keep {
                    candidates.push((used, base, block));
                }
            }
        }
        candidates.sort_unstable();
        for (_, base, block) in candidates {
            if self.devices[ordinal].free_bytes() >= bytes {
                break;
            }
            self.evict(machine, device, base, block);
        }
        if self.devices[ordinal].free_bytes() >= bytes {
            Ok(())
        } else {
            Err(Code::MEMORY_ALLOCATION)
        }
    }

    fn evict(&mut self, machine: &Machine, device: Processor, base: usize, block: usize) {
        let Some((managed, count)) = self.managed(base) else {
            return;
        };
        let pages = block * BLOCK_PAGES..((block + 1) * BLOCK_PAGES).min(count);
        for (run, page, _) in managed.runs(&pages) {
            if !page.resident.contains(device) {
                continue;
            }
            let bytes = (run.len() * PAGE) as u64;
            let mut resident = page.resident.without(device);
            if resident.is_empty() {
                resident = Processors::only(HOST);
                self.counters.evicted_bytes += bytes;
                self.count_move(page.resident, HOST, bytes, &mut Moved::default());
            }
            self.place(
                machine,
                base,
                run,
                Page {
                    resident,
                    mapped: Processors::NONE,
                },
            );
        }
    }

    /// A managed allocation's pages and their number.
    pub(crate) fn managed(&self, base: usize) -> Option<(&Managed, usize)> {
        let allocation = self.allocations.get(&base)?;
        Some((allocation.managed()?, allocation.page_count()))
    }
}

impl Machine {
    /// What the host may do with a page in this state without faulting.
    pub(crate) fn host_access(&self, page: Page) -> HostAccess {
        if page.resident.contains(HOST) {
            if page.resident.len() > 1 {
                HostAccess::Read
            } else {
                HostAccess::ReadWrite
            }
        } else if page.mapped.contains(HOST) {
            HostAccess::ReadWrite
        } else {
            HostAccess::None
        }
    }
}
