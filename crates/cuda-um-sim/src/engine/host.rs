//! Touches of managed memory by the host.

use std::ops::Range;
use std::time::Duration;

use super::address_space::{HostAccess, PAGE};
use super::managed::{Attach, HOST, HOST_CACHE_BYTES, Left};
use super::state::State;
use super::status::Code;
use cuda_um_cost::at_rate;

/// Bytes that a process can address.
const ADDRESSES: usize = 1 << 47;

impl State {
    /// Whether the host must not touch a managed allocation now: devices raise no page faults, and the host has not seen every kernel that
    /// may use the allocation complete.
    pub(crate) fn host_must_wait(&self, base: usize) -> bool {
        let Some(managed) = self.managed.get(base) else {
            return false;
        };
        match managed.attach {
            Attach::Global => self.streams.kernel_in_flight(|_| true),
            Attach::Single(only) => self.streams.kernel_in_flight(|stream| stream == only),
            Attach::Host => false,
        }
    }

    /// The host touches one page; returns the time that the fault takes.
    pub(crate) fn host_touch(
        &mut self,
        base: usize,
        address: usize,
        write: Option<bool>,
    ) -> Result<Duration, Code> {
        let page = (address - base) / PAGE;
        let before = self.page_access(base, page);
        // If the machine does not say whether the fault was a write: a page that can be read faults only when it is written.
        let write = write.unwrap_or(before == HostAccess::Read);
        if before == HostAccess::ReadWrite || (before == HostAccess::Read && !write) {
            // Another thread has served the fault, or the kernel refused the last change of access.
            let page = base + page * PAGE..base + (page + 1) * PAGE;
            return if self.machine.space.protect(page, before) {
                Ok(Duration::ZERO)
            } else {
                Err(Code::UNKNOWN)
            };
        }
        self.records.activity.now = self.now;
        let price = self.uvm().touch(HOST, base, page..page + 1, write);
        Ok(price.time)
    }

    /// The pages of an allocation that fault if the host touches them.
    pub(crate) fn host_faults(&self, base: usize, pages: Range<usize>, write: bool) -> Vec<usize> {
        let faults = |page: &usize| match self.page_access(base, *page) {
            HostAccess::None => true,
            HostAccess::Read => write,
            HostAccess::ReadWrite => false,
        };
        pages.filter(faults).collect()
    }

    /// The host has written `bytes` at `address`: adds the time for it, besides faults. That is the time to copy, and to map pages that a
    /// prefetch made.
    pub(crate) fn host_wrote(&mut self, address: usize, bytes: usize) {
        let cost = &self.machine.cost;
        // A process can write no more at a time: a wrong number does not bring the clock to its end.
        let bytes = bytes.min(ADDRESSES);
        let cached = bytes.min(HOST_CACHE_BYTES);
        self.now += at_rate(cached as u64, cost.host_write_rate)
            + at_rate((bytes - cached) as u64, cost.host_copy_rate);
        let Some(allocation) = self.memory.holding(address) else {
            return;
        };
        let end = address.saturating_add(bytes).min(allocation.end());
        let pages = allocation.pages(&(address..end));
        if let Some(managed) = self.managed.get_mut(allocation.base) {
            let unmapped = managed.left_to_host(&pages, Left::Unmapped);
            managed.left.remove(pages);
            self.now += cost.host_map_page * unmapped as u32;
        }
    }

    fn page_access(&self, base: usize, page: usize) -> HostAccess {
        let managed = self.managed.get(base);
        let state = managed.and_then(|managed| managed.pages.get(&page));
        state.map_or(HostAccess::None, |state| state.host_access())
    }
}
