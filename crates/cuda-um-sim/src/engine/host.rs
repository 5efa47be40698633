//! What a touch by the host does.

use std::time::Duration;

use super::address_space::{HostAccess, PAGE};
use super::allocation::{Allocation, Left};
use super::migration::HOST_CACHE_BYTES;
use super::page::HOST;
use super::state::{Machine, State};
use super::status::Code;
use cuda_um_cost::at_rate;

/// What a process can address.
const ADDRESSES: usize = 1 << 47;

impl State {
    /// The allocation whose pages hold an address: the rest of its last page counts.
    pub(crate) fn holding_page(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address < allocation.base + allocation.page_count() * PAGE).then_some(allocation)
    }

    /// Whether the host must not touch a managed allocation now.
    pub(crate) fn host_must_wait(&self, machine: &Machine, base: usize) -> bool {
        !machine.concurrent
            && self
                .managed(base)
                .is_some_and(|(managed, _)| self.kernel_in_flight(managed.attach))
    }

    /// The host touches one page; what serving it costs.
    pub(crate) fn host_touch(
        &mut self,
        machine: &Machine,
        base: usize,
        address: usize,
        write: Option<bool>,
    ) -> Result<Duration, Code> {
        let page = (address - base) / PAGE;
        let before = self.page_access(machine, base, page);
        // Where the machine does not say: a page that can be read faulted because it was written.
        let write = write.unwrap_or(before == HostAccess::Read);
        if before == HostAccess::ReadWrite || (before == HostAccess::Read && !write) {
            // Another thread was faster, or the kernel refused the last change.
            let page = base + page * PAGE..base + (page + 1) * PAGE;
            return if machine.space.protect(page, before) {
                Ok(Duration::ZERO)
            } else {
                Err(Code::UNKNOWN)
            };
        }
        self.activity.now = self.now;
        Ok(self.touch(machine, HOST, base, page..page + 1, write).cost)
    }

    /// What it takes the host to write `bytes` at `address`, besides faults: the copying itself, and mapping pages that a prefetch made.
    pub(crate) fn host_wrote(&mut self, machine: &Machine, address: usize, bytes: usize) {
        let cost = &machine.cost;
        // No process writes more at a time: a wrong number does not bring the clock to its end.
        let bytes = bytes.min(ADDRESSES);
        let cached = bytes.min(HOST_CACHE_BYTES);
        self.now += at_rate(cached as u64, cost.host_write_rate)
            + at_rate((bytes - cached) as u64, cost.host_copy_rate);
        let Some(allocation) = self.holding(address) else {
            return;
        };
        let base = allocation.base;
        let end = address.saturating_add(bytes).min(allocation.end());
        let pages = allocation.pages(&(address..end));
        let allocation = self.allocations.get_mut(&base);
        if let Some(managed) = allocation.and_then(|allocation| allocation.managed_mut()) {
            let unmapped = managed.left_to_host(&pages, Left::Unmapped);
            managed.left.remove(pages);
            self.now += cost.host_map_page * unmapped as u32;
        }
    }

    fn page_access(&self, machine: &Machine, base: usize, page: usize) -> HostAccess {
        let state = self
            .managed(base)
            .and_then(|(managed, _)| managed.pages.get(&page).copied());
        state.map_or(HostAccess::None, |state| machine.host_access(state))
    }
}
