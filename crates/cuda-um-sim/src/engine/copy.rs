//! Explicit copies and memset.
// The bytes are moved by raw copies of checked ranges.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::bytes;
use super::core::Core;
use super::memory::{Memory, Span};
use super::page::{HOST, Processor};
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};
use super::thread_sanitizer::device_touches;
use cuda_um_cost::at_rate;

/// Copies from or to pageable memory of this size and above go through the driver's own pinned memory.
const STAGED_FROM: usize = 64 << 10;

/// `cudaMemcpyKind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Default,
}

impl Direction {
    pub(crate) fn from_raw(raw: u32) -> Result<Direction, Code> {
        Ok(match raw {
            0 => Direction::HostToHost,
            1 => Direction::HostToDevice,
            2 => Direction::DeviceToHost,
            3 => Direction::DeviceToDevice,
            4 => Direction::Default,
            _ => return Err(Code::INVALID_MEMCPY_DIRECTION),
        })
    }

    fn device_ends(self) -> Option<(bool, bool)> {
        match self {
            Direction::HostToHost => Some((false, false)),
            Direction::HostToDevice => Some((false, true)),
            Direction::DeviceToHost => Some((true, false)),
            Direction::DeviceToDevice => Some((true, true)),
            Direction::Default => None,
        }
    }
}

/// Where one end of a copy is when it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Device,
    Pinned,
    Pageable,
}

/// A copy that was checked.
pub(crate) struct Copy {
    from: Span,
    to: Span,
    direction: Direction,
    /// The bytes, if they were taken when the copy was called.
    staged: Option<Vec<u8>>,
}

impl Copy {
    /// Takes the bytes of pageable memory now, so that the caller may reuse it. The caller holds no lock: the memory may be managed memory
    /// of another simulator, whose state serves the fault.
    pub(crate) fn stage(&mut self) {
        if self.from.memory != Memory::Pageable {
            return;
        }
        let mut staged = vec![0u8; self.from.bytes];
        // SAFETY: the caller of the CUDA function vouches for so many readable bytes at `from`; `staged` has as many.
        unsafe { bytes::copy(staged.as_mut_ptr() as usize, self.from.view, staged.len()) };
        self.staged = Some(staged);
    }
}

/// A copy or a memset that was checked and enqueued.
pub(crate) struct Enqueued {
    pub(crate) done: Arc<Completion>,
    /// The caller may not go on before it has run: it writes pageable memory.
    pub(crate) blocks: bool,
}

impl State {
    /// Checks a copy.
    pub(crate) fn check_copy(
        &mut self,
        machine: &Machine,
        to: usize,
        from: usize,
        count: usize,
        direction: Direction,
    ) -> Result<Copy, Code> {
        let to = self.find(machine, to, count)?;
        let from = self.find(machine, from, count)?;
        if let Some((from_device, to_device)) = direction.device_ends() {
            self.check_end(machine, &from, from_device)?;
            self.check_end(machine, &to, to_device)?;
        }
        Ok(Copy {
            from,
            to,
            direction,
            staged: None,
        })
    }

    /// Enqueues a copy that was checked; pageable destinations make the caller wait.
    pub(crate) fn copy(&mut self, core: &Arc<Core>, stream: &Arc<Stream>, copy: Copy) -> Enqueued {
        let Copy {
            from,
            to,
            direction,
            staged,
        } = copy;
        self.names(&from);
        self.names(&to);
        self.now += core.machine.cost.enqueue;
        let (device, number) = (stream.device, self.handle());
        let work = Box::new(move |core: &Arc<Core>, start: Duration| {
            let end = {
                let mut state = core.state.lock();
                if !state.begin_touches(number, &[from, to]) {
                    return start;
                }
                let cost = state.price_copy(&core.machine, device, &from, &to, direction);
                let outwards = state.end_of(&from) == End::Device;
                state.take_link(device, outwards, start, cost)
            };
            let source = staged
                .as_ref()
                .map_or(from.view, |staged| staged.as_ptr() as usize);
            if staged.is_none() {
                device_touches(from.address, from.bytes, false);
            }
            device_touches(to.address, to.bytes, true);
            // SAFETY: both ranges, of the same size, were checked against their allocations, whose device views stay mapped while the
            // simulator lives; ranges outside them are vouched for by the caller of the CUDA function, who must keep
            // them until the copy has run.
            unsafe { bytes::copy(to.view, source, to.bytes) };
            core.state.lock().end_touches(number);
            end
        });
        let done = self.enqueue(core, stream, Vec::new(), work);
        Enqueued {
            done,
            blocks: to.memory == Memory::Pageable,
        }
    }

    /// An end that the caller says is on a device must not be pageable, and one on the host must not be a device's.
    fn check_end(&self, machine: &Machine, end: &Span, device: bool) -> Result<(), Code> {
        let wrong = match end.memory {
            Memory::Pageable => device && !machine.profile.pageable_memory_access,
            Memory::Device(_) => !device,
            Memory::Managed(_) | Memory::Pinned => false,
        };
        if wrong && end.bytes > 0 {
            Err(Code::INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// Places fresh managed pages, counts the copy, and says what it costs.
    fn price_copy(
        &mut self,
        machine: &Machine,
        device: usize,
        from: &Span,
        to: &Span,
        direction: Direction,
    ) -> Duration {
        if to.bytes == 0 {
            return Duration::ZERO;
        }
        if let Memory::Managed(base) = to.memory {
            let pages = self.pages_of(base, to);
            let on_host = matches!(direction, Direction::DeviceToHost | Direction::HostToHost);
            let home = if on_host || !machine.concurrent {
                HOST
            } else {
                Processor::device(device)
            };
            self.populate(machine, home, base, &pages);
            self.collapse(machine, base, &pages);
        }
        let (source, target) = (self.end_of(from), self.end_of(to));
        let (count, cost) = (to.bytes as u64, &machine.cost);
        let counter = match (source, target) {
            (End::Device, End::Device) => &mut self.counters.copied_device_to_device,
            (_, End::Device) => &mut self.counters.copied_to_device,
            (End::Device, _) => &mut self.counters.copied_to_host,
            _ => &mut self.counters.copied_host_to_host,
        };
        *counter += count;
        let rate = match (source, target) {
            (End::Device, End::Device) => cost.device_rate,
            (End::Pageable, _) | (_, End::Pageable) => cost.pageable_rate,
            _ => cost.pinned_rate,
        };
        let managed = [from, to].map(|span| matches!(span.memory, Memory::Managed(_)));
        let mut time = cost.copy + at_rate(count, rate);
        if managed.contains(&true) {
            time += cost.copy_managed;
        }
        let ends = [source, target];
        if ends.contains(&End::Pageable) && ends.contains(&End::Device) && to.bytes >= STAGED_FROM {
            time += cost.staging;
        }
        time
    }

    /// Copies and prefetches of one direction share the link; the end of the work.
    pub(crate) fn take_link(
        &mut self,
        device: usize,
        outwards: bool,
        start: Duration,
        cost: Duration,
    ) -> Duration {
        let device = &mut self.devices[device];
        let link = if outwards {
            &mut device.link_out
        } else {
            &mut device.link_in
        };
        let end = start.max(*link) + cost;
        *link = end;
        device.end = device.end.max(end);
        end
    }

    fn end_of(&self, span: &Span) -> End {
        match span.memory {
            Memory::Device(_) => End::Device,
            Memory::Pinned => End::Pinned,
            Memory::Pageable => End::Pageable,
            Memory::Managed(base) => {
                let spread = self.spread(base, &self.pages_of(base, span));
                if spread.device > spread.host {
                    End::Device
                } else {
                    End::Pinned
                }
            }
        }
    }

    /// Checks and enqueues a memset of `count` elements of `width` bytes.
    pub(crate) fn set(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        to: usize,
        value: u32,
        width: usize,
        count: usize,
    ) -> Result<Enqueued, Code> {
        let count_bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        let machine = &core.machine;
        let to = self.find(machine, to, count_bytes)?;
        if to.memory == Memory::Pageable
            && count_bytes > 0
            && !machine.profile.pageable_memory_access
        {
            return Err(Code::INVALID_VALUE);
        }
        if !to.address.is_multiple_of(width) {
            return Err(Code::INVALID_VALUE);
        }
        self.names(&to);
        self.now += machine.cost.enqueue;
        let (device, number) = (stream.device, self.handle());
        let work = Box::new(move |core: &Arc<Core>, start: Duration| {
            let cost = {
                let mut state = core.state.lock();
                if !state.begin_touches(number, &[to]) {
                    return start;
                }
                state.price_set(&core.machine, device, &to, start)
            };
            device_touches(to.address, to.bytes, true);
            // SAFETY: the range was checked against its allocation, whose device view stays mapped while the simulator
            // lives, or is vouched for by the caller of the CUDA function.
            unsafe { bytes::set(to.view, value, width, count) };
            core.state.lock().end_touches(number);
            start + cost
        });
        let done = self.enqueue(core, stream, Vec::new(), work);
        Ok(Enqueued {
            done,
            blocks: matches!(
                to.memory,
                Memory::Pinned | Memory::Pageable | Memory::Managed(_)
            ),
        })
    }

    fn price_set(
        &mut self,
        machine: &Machine,
        device: usize,
        to: &Span,
        start: Duration,
    ) -> Duration {
        let mut cost = machine.cost.kernel + at_rate(to.bytes as u64, machine.cost.device_rate);
        if let Memory::Managed(base) = to.memory
            && to.bytes > 0
        {
            // A memset runs on the device: it faults like a kernel that writes.
            self.activity.now = start;
            let touch = self.touch(
                machine,
                Processor::device(device),
                base,
                self.pages_of(base, to),
                true,
            );
            cost += touch.cost + machine.over_link(touch.remote_bytes);
        }
        self.counters.set_bytes += to.bytes as u64;
        cost
    }
}
