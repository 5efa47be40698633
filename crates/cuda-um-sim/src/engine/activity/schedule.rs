//! Gives records their times: the engine knows what a piece of work costs in all, and here it is dealt out.

use std::ops::Range;
use std::time::Duration;

use super::{Activity, Cause, What};
use crate::engine::address_space::PAGE;
use crate::engine::page::{HOST, LEAF_PAGES, Processor};
use cuda_um_cost::{CostModel, at_rate};

/// How the faults of one block were served.
pub(crate) struct Service<'a> {
    pub(crate) cost: &'a CostModel,
    pub(crate) processor: Processor,
    /// Faults are raised at all.
    pub(crate) faults: bool,
    pub(crate) write: bool,
    /// Address of the block.
    pub(crate) block: usize,
    /// The pages that were touched, from the block's begin.
    pub(crate) touched: Range<usize>,
    /// Each group of faults: the 64 KiB pages that faulted, and those that came in, one bit each.
    pub(crate) groups: &'a [(u32, u32)],
    /// So many of them are served along with groups of the blocks before.
    pub(crate) shared: usize,
}

impl Activity {
    /// Where the records of the next piece of work begin.
    pub(crate) fn mark(&self) -> usize {
        self.pending.len()
    }

    /// The records since `mark` are what faults of one block brought: adds the faults, and times all of them from `begin` on. A group
    /// lasts until what it brought is there.
    pub(crate) fn serve(&mut self, mark: usize, begin: Duration, service: &Service<'_>) {
        if !self.memory {
            return;
        }
        let mut moved = self.pending.split_off(mark.min(self.pending.len()));
        let leaf_bytes = LEAF_PAGES * PAGE;
        let bit = |address: usize| {
            let leaf = address.checked_sub(service.block).map(|at| at / leaf_bytes);
            leaf.filter(|leaf| *leaf < 32)
                .map_or(0, |leaf| 1u32 << leaf)
        };
        // What was evicted to make room went before, and takes no time on this clock.
        let evicted = |what: &What| {
            matches!(
                what,
                What::Transfer {
                    cause: Cause::Eviction,
                    ..
                }
            )
        };
        for record in moved.extract_if(.., |record| evicted(&record.what)) {
            self.push(record.what, record.address, begin, begin);
        }
        let mut cursor = begin;
        if service.shared == 0 {
            self.groups.clear();
        }
        for (group, &(faulting, brought)) in service.groups.iter().enumerate() {
            let start = cursor;
            let first = service.block + faulting.trailing_zeros() as usize * leaf_bytes;
            let touched = service.block + service.touched.start * PAGE;
            if !service.faults {
            } else if service.processor == HOST {
                cursor += service.cost.cpu_fault * faulting.count_ones();
                for leaf in (0..32).filter(|leaf| faulting & (1 << leaf) != 0) {
                    let address = (service.block + leaf * leaf_bytes).max(touched);
                    self.push(What::CpuFault, address, start, start);
                }
            } else {
                let faults = faulting.count_ones();
                cursor += service.cost.gpu_fault * faults;
                if group >= service.shared {
                    cursor += service.cost.gpu_fault_group;
                }
            }
            let brought = brought | faulting;
            for mut record in moved.extract_if(.., |record| bit(record.address) & brought != 0) {
                let from = cursor;
                if let What::Transfer { bytes, cause, .. } = &mut record.what {
                    cursor += at_rate(*bytes, service.cost.fault_rate);
                    *cause = match bit(record.address) & faulting {
                        0 => Cause::Density,
                        _ => Cause::Coherence,
                    };
                }
                self.push(record.what, record.address, from, cursor);
            }
            if let Some(device) = service.processor.ordinal().filter(|_| service.faults) {
                let raised = faulting.count_ones();
                if group < service.shared {
                    self.join_group(group, raised, cursor);
                    continue;
                }
                let what = What::GpuFaults {
                    device,
                    faults: raised,
                    write: service.write,
                };
                self.groups.push(self.pending.len());
                self.push(what, first.max(touched), start, cursor);
            }
        }
        for record in moved {
            self.push(record.what, record.address, cursor, cursor);
        }
    }

    /// Adds faults to a group that has a record already (or had none, for want of room).
    fn join_group(&mut self, group: usize, raised: u32, until: Duration) {
        let record = self
            .groups
            .get(group)
            .and_then(|at| self.pending.get_mut(*at));
        if let Some(record) = record
            && let What::GpuFaults { faults, .. } = &mut record.what
        {
            *faults += raised;
            record.end = record.end.max(until);
        }
    }

    /// The transfers since `mark` follow one another and end at `end`.
    pub(crate) fn transfers_end(
        &mut self,
        mark: usize,
        end: Duration,
        cost: impl Fn(Processor, u64) -> Duration,
    ) {
        let takes = |what: &What| match *what {
            What::Transfer {
                cause: Cause::Eviction,
                ..
            } => Duration::ZERO,
            What::Transfer { to, bytes, .. } => cost(to, bytes),
            _ => Duration::ZERO,
        };
        let records = self.pending.get_mut(mark..).unwrap_or_default();
        let total: Duration = records.iter().map(|record| takes(&record.what)).sum();
        let mut cursor = end.saturating_sub(total);
        for record in records {
            record.start = cursor;
            cursor += takes(&record.what);
            record.end = cursor;
        }
    }
}
