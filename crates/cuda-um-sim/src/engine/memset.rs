//! Memset, and writes of values that the host polls.
// The bytes are set by raw writes of checked ranges.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::bytes;
use super::core::Core;
use super::managed::{Processor, SYSTEM};
use super::memory::{Memory, Span};
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::{Completion, Stream};
use super::thread_sanitizer::{device_releases, device_touches};
use cuda_um_cost::at_rate;

/// A memset that was checked.
#[derive(Clone, Copy)]
pub(super) struct Set {
    pub(super) to: Span,
    pub(super) value: u32,
    pub(super) width: usize,
}

impl Set {
    /// Runs the memset on a stream of `device`; returns its end.
    /// `least` is the time of a memset of nothing.
    pub(super) fn run(
        self,
        core: &Core,
        device: usize,
        number: usize,
        start: Duration,
        least: Duration,
    ) -> Duration {
        let Set { to, value, width } = self;
        let cost = {
            let mut state = core.state.lock();
            if !state.begin_work(number, &[to]) {
                return start;
            }
            least + state.price_set(device, &to, start)
        };
        device_touches(to.address, to.bytes, true);
        let end = to.address + to.bytes;
        let zero = (value == 0).then(|| core.machine.space.zero_pages(to.address..end));
        let parts = match zero.flatten() {
            // Zero is the same in every width.
            Some(pages) => [to.address..pages.start, pages.end..end].map(|part| (part, 1)),
            None => [(to.address..end, width), (end..end, 1)],
        };
        for (part, width) in parts {
            let (at, count) = (to.view + (part.start - to.address), part.len() / width);
            // SAFETY: the range was checked against its allocation, whose device view stays mapped while the simulator exists, or the
            // caller of the CUDA function vouches for it.
            unsafe { bytes::set(at, value, width, count) };
        }
        core.state.lock().memory.end_use(number);
        start + cost
    }

    /// Runs the write of one value that the host polls, as the host does with an atomic.
    pub(super) fn publish(self, core: &Core, number: usize, start: Duration) -> Duration {
        let Set { to, value, .. } = self;
        if !core.state.lock().begin_work(number, &[to]) {
            return start;
        }
        device_releases(to.address);
        // The host polls: it goes on when the value arrives.
        let mut state = core.state.lock();
        state.now = state.now.max(start);
        state.memory.end_use(number);
        drop(state);
        // SAFETY: aligned and checked against its allocation, as for a memset; the host reads it as an atomic.
        unsafe { AtomicU32::from_ptr(to.view as *mut u32) }.store(value, Ordering::Release);
        start
    }
}

impl State {
    /// Checks a memset of `count` elements of `width` bytes, and enqueues or captures it. Returns its end if a synchronous call waits for
    /// it, because it writes memory that the host sees.
    pub(crate) fn set(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        to: usize,
        value: u32,
        width: usize,
        count: usize,
    ) -> Result<Option<Arc<Completion>>, Code> {
        let set = self.check_set(to, value, width, count)?;
        let waits = !matches!(set.to.memory, Memory::Device(_));
        let operation = Operation::Set(set);
        let done = self.submit(core, stream, operation, self.machine.cost.enqueue)?;
        Ok(done.filter(|_| waits))
    }

    /// Checks the write of a value that the host polls, and enqueues or captures it.
    pub(crate) fn write_value(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        to: usize,
        value: u32,
    ) -> Result<(), Code> {
        let set = self.check_set(to, value, size_of::<u32>(), 1)?;
        let operation = Operation::Write(set);
        self.submit(core, stream, operation, self.machine.cost.enqueue)
            .map(drop)
    }

    pub(super) fn check_set(
        &self,
        to: usize,
        value: u32,
        width: usize,
        count: usize,
    ) -> Result<Set, Code> {
        let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        let to = self.memory.find(to, bytes)?;
        let pageable = to.memory == Memory::Pageable && bytes > 0;
        if pageable && !self.machine.profile.pageable_memory_access {
            return Err(self.memory.inaccessible(to.address));
        }
        if !to.address.is_multiple_of(width) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Set { to, value, width })
    }

    fn price_set(&mut self, device: usize, to: &Span, start: Duration) -> Duration {
        let cost = &self.machine.cost;
        let mut time = at_rate(to.bytes as u64, cost.device_rate);
        if let Some((base, pages)) = self.pages_in(to) {
            // A memset runs on the device: it faults like a kernel that writes.
            self.records.activity.now = start;
            if base == SYSTEM {
                self.forget_untouched(&pages);
            }
            let processor = Processor::device(device);
            let price = self.uvm().touch(processor, base, pages, true);
            time += price.time + self.machine.over_link(price.remote_bytes);
        }
        self.records.counters.set_bytes += to.bytes as u64;
        time
    }
}
