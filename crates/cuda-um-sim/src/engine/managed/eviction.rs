//! Eviction: makes room on a device by moving its least recently used blocks to the host.

use super::driver::UvmDriver;
use super::migration::Moved;
use super::page::{BLOCK_PAGES, HOST, Page, Processor, Processors};
use crate::engine::activity::Cause;
use crate::engine::address_space::PAGE;
use crate::engine::status::Code;

impl UvmDriver<'_> {
    /// Evicts the least recently used blocks from a device until `bytes` fit; the block `keep` stays.
    pub(crate) fn make_room(
        &mut self,
        ordinal: usize,
        bytes: u64,
        keep: Option<(usize, usize)>,
    ) -> Result<(), Code> {
        let device = &self.devices[ordinal];
        if device.free_bytes() >= bytes {
            return Ok(());
        }
        if device.free_bytes() + device.managed_bytes < bytes {
            return Err(Code::MEMORY_ALLOCATION);
        }
        let mut candidates = Vec::new();
        for (base, managed) in self.managed.iter().filter(|(_, managed)| !managed.charged) {
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
            self.evict(Processor::device(ordinal), base, block);
        }
        if self.devices[ordinal].free_bytes() >= bytes {
            Ok(())
        } else {
            Err(Code::MEMORY_ALLOCATION)
        }
    }

    fn evict(&mut self, device: Processor, base: usize, block: usize) {
        let Some(managed) = self.managed.get(base) else {
            return;
        };
        let pages = block * BLOCK_PAGES..((block + 1) * BLOCK_PAGES).min(managed.count);
        for run in managed.runs(&pages) {
            if !run.page.resident.contains(device) {
                continue;
            }
            let mut resident = run.page.resident.without(device);
            if resident.is_empty() {
                resident = Processors::only(HOST);
                self.records.counters.evicted_bytes += (run.pages.len() * PAGE) as u64;
                let cause = std::mem::replace(&mut self.records.activity.cause, Cause::Eviction);
                let moved = &mut Moved::default();
                self.count_move(run.page.resident, HOST, base, &run.pages, moved);
                self.records.activity.cause = cause;
            }
            let mapped = Processors::NONE;
            self.place(base, run.pages, Page { resident, mapped });
        }
    }
}
