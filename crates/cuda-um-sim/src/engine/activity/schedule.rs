//! The times of records: distributes the time that a piece of work takes among its records.

use std::ops::Range;
use std::time::Duration;

use super::{Activity, Cause, Record, What};
use crate::engine::address_space::PAGE;
use crate::engine::device::Devices;
use crate::engine::managed::{HOST, LEAF_PAGES, Processor};
use cuda_um_cost::{CostModel, at_rate};

/// Bytes of a 64 KiB page.
const LEAF_BYTES: usize = LEAF_PAGES * PAGE;

/// How the faults of one block were served.
pub(crate) struct Service<'a> {
    pub(crate) cost: &'a CostModel,
    pub(crate) devices: &'a Devices,
    pub(crate) processor: Processor,
    /// The processor raises faults.
    pub(crate) faults: bool,
    pub(crate) write: bool,
    /// Address of the allocation, and of the block.
    pub(crate) base: usize,
    pub(crate) block: usize,
    /// The pages that were touched, numbered from the start of the allocation.
    pub(crate) touched: &'a [(Range<usize>, bool)],
    /// Each group of faults: the 64 KiB pages that faulted, and those that it brought, one bit each.
    pub(crate) groups: &'a [(u32, u32)],
    /// The number of groups that are served together with groups of earlier blocks.
    pub(crate) shared: usize,
}

impl Service<'_> {
    /// The bit of the 64 KiB page that holds an address; 0 if the block does not hold it.
    fn leaf_bit(&self, address: usize) -> u32 {
        let leaf = address.checked_sub(self.block).map(|at| at / LEAF_BYTES);
        leaf.filter(|leaf| *leaf < 32)
            .map_or(0, |leaf| 1u32 << leaf)
    }

    /// The first address that was touched in a 64 KiB page.
    fn fault_address(&self, leaf: usize) -> usize {
        let leaf = self.block + leaf * LEAF_BYTES;
        let address = |page: usize| self.base + page * PAGE;
        let mut parts = self.touched.iter();
        let part = parts.find(|(part, _)| address(part.end) > leaf);
        part.map_or(leaf, |(part, _)| leaf.max(address(part.start)))
    }

    /// The time for a group of so many faults, besides the copies that they cause.
    fn fault_time(&self, faults: u32, shared: bool) -> Duration {
        if !self.faults {
            return Duration::ZERO;
        }
        match self.processor {
            HOST => self.cost.cpu_fault * faults,
            _ if shared => self.cost.gpu_fault * faults,
            _ => self.cost.gpu_fault * faults + self.cost.gpu_fault_group,
        }
    }
}

impl Activity {
    /// The number of records so far: the records of the next piece of work begin there.
    pub(crate) fn mark(&self) -> usize {
        self.pending.len()
    }

    /// Times the records since `mark`, which are of pages that the faults of one block brought, from `begin` on, and adds records of the
    /// faults. A group lasts until the pages that it brought are there.
    pub(crate) fn serve(&mut self, mark: usize, begin: Duration, service: &Service<'_>) {
        if !self.memory {
            return;
        }
        let mut moved = self.pending.split_off(mark.min(self.pending.len()));
        // Evictions that made room come first, and take no time on this clock.
        for record in moved.extract_if(.., |record| record.what.is_eviction()) {
            self.push(record.what, record.address, begin, begin);
        }
        if service.shared == 0 {
            self.groups.clear();
        }
        let mut now = begin;
        for group in 0..service.groups.len() {
            now = self.serve_group(group, now, &mut moved, service);
        }
        for record in moved {
            self.push(record.what, record.address, now, now);
        }
    }

    /// Times the records of one group, which begins at `begin`, and adds records of its faults; returns its end.
    fn serve_group(
        &mut self,
        group: usize,
        begin: Duration,
        moved: &mut Vec<Record>,
        service: &Service<'_>,
    ) -> Duration {
        let (faulting, brought) = service.groups[group];
        let shared = group < service.shared;
        if service.faults && service.processor == HOST {
            for leaf in (0..32).filter(|leaf| faulting & (1 << leaf) != 0) {
                self.push(What::CpuFault, service.fault_address(leaf), begin, begin);
            }
        }
        let mut now = begin + service.fault_time(faulting.count_ones(), shared);
        let brought = brought | faulting;
        let in_group = |record: &mut Record| service.leaf_bit(record.address) & brought != 0;
        for mut record in moved.extract_if(.., in_group) {
            let start = now;
            if let What::Transfer {
                from,
                to,
                bytes,
                cause,
            } = &mut record.what
            {
                let rate = (service.devices).fault_rate(*from, *to);
                now += at_rate(*bytes, rate);
                *cause = match service.leaf_bit(record.address) & faulting {
                    0 => Cause::Density,
                    _ => Cause::Coherence,
                };
            }
            self.push(record.what, record.address, start, now);
        }
        if let Some(device) = service.processor.ordinal().filter(|_| service.faults) {
            let faults = faulting.count_ones();
            if shared {
                self.join_group(group, faults, now);
            } else {
                let write = service.write;
                let what = What::GpuFaults {
                    device,
                    faults,
                    write,
                };
                self.groups.push(self.pending.len());
                let address = service.fault_address(faulting.trailing_zeros() as usize);
                self.push(what, address, begin, now);
            }
        }
        now
    }

    /// Adds faults to a group that has a record already, unless that record was dropped.
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

    /// Times the transfers since `mark`: they follow one another and end at `end`.
    pub(crate) fn transfers_end(
        &mut self,
        mark: usize,
        end: Duration,
        cost: impl Fn(Processor, Processor, u64) -> Duration,
    ) {
        let takes = |what: &What| match *what {
            What::Transfer {
                from, to, bytes, ..
            } if !what.is_eviction() => cost(from, to, bytes),
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
