//! Making room on a device: what was used longest ago goes to the host.

use super::activity::Cause;
use super::address_space::PAGE;
use super::migration::Moved;
use super::page::{BLOCK_PAGES, HOST, Page, Processor, Processors};
use super::state::{Machine, State};
use super::status::Code;

impl State {
    /// A block is being used: it is evicted later than others.
    pub(crate) fn mark_used(&mut self, base: usize, block: usize) {
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
        let device = &self.devices[ordinal];
        if device.free_bytes() + device.managed_bytes < bytes {
            return Err(Code::MEMORY_ALLOCATION);
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
                let cause = std::mem::replace(&mut self.activity.cause, Cause::Eviction);
                self.count_move(page.resident, HOST, base, &run, &mut Moved::default());
                self.activity.cause = cause;
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
}
