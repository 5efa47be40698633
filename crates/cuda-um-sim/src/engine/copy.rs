//! Explicit copies.
// The bytes are moved by raw copies of checked ranges.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::bytes;
use super::core::Core;
use super::link::{By, processor};
use super::managed::{HOST, Processor, Spread};
use super::memory::{Memory, Span};
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::{Completion, Stream};
use super::thread_sanitizer::device_touches;
use cuda_um_cost::at_rate;

/// Copies of this size and above between pageable memory and a device go through the driver's own pinned memory.
const STAGED_FROM: usize = 64 << 10;

/// `cudaMemcpyKind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Default,
    /// Between devices that need no access to each other.
    Peer,
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

    /// Whether the source and the destination are on a device; `None` if the caller leaves it open.
    fn device_ends(self) -> Option<(bool, bool)> {
        match self {
            Direction::HostToHost => Some((false, false)),
            Direction::HostToDevice => Some((false, true)),
            Direction::DeviceToHost => Some((true, false)),
            Direction::DeviceToDevice | Direction::Peer => Some((true, true)),
            Direction::Default => None,
        }
    }
}

/// The kind of memory that holds one end of a copy when it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Device(usize),
    Pinned,
    Pageable,
}

impl End {
    fn device(self) -> Option<usize> {
        match self {
            End::Device(ordinal) => Some(ordinal),
            End::Pinned | End::Pageable => None,
        }
    }
}

/// A copy that was checked.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(super) from: Span,
    pub(super) to: Span,
    pub(super) direction: Direction,
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

    /// Runs the copy on a stream of `device`; returns its end.
    pub(super) fn run(
        self,
        core: &Core,
        device: usize,
        number: usize,
        start: Duration,
    ) -> Duration {
        let Copy {
            from,
            to,
            direction,
            staged,
        } = self;
        let end = {
            let mut state = core.state.lock();
            if !state.begin_work(number, &[from, to]) {
                return start;
            }
            state.populate_target(device, &to, direction);
            let ends = [state.end_of(&from), state.end_of(&to)];
            let cost = state.count_copy(&from, &to, ends);
            let route = match ends.map(End::device) {
                // A copy inside the host takes as long as one to the device.
                [None, None] => (HOST, Processor::device(device), By::Copy),
                [from, to] => (processor(from), processor(to), By::Copy),
            };
            state.devices.carry(device, [route], start, cost)
        };
        let source = match &staged {
            Some(staged) => staged.as_ptr() as usize,
            None => {
                device_touches(from.address, from.bytes, false);
                from.view
            }
        };
        device_touches(to.address, to.bytes, true);
        // SAFETY: both ranges, of the same size, were checked against their allocations, whose device views stay mapped while the
        // simulator exists. For ranges outside them the caller of the CUDA function vouches: it must keep them until the copy has run.
        unsafe { bytes::copy(to.view, source, to.bytes) };
        core.state.lock().memory.end_use(number);
        end
    }
}

impl State {
    /// Checks a copy.
    pub(crate) fn check_copy(
        &self,
        to: usize,
        from: usize,
        count: usize,
        direction: Direction,
    ) -> Result<Copy, Code> {
        let to = self.memory.find(to, count)?;
        let from = self.memory.find(from, count)?;
        let is_lost =
            |end: &Span| matches!(end.memory, Memory::Device(of) if self.context.is_lost(of));
        if is_lost(&to) || is_lost(&from) {
            return Err(Code::ECC_UNCORRECTABLE);
        }
        if let Some((from_device, to_device)) = direction.device_ends() {
            self.check_end(&from, from_device)?;
            self.check_end(&to, to_device)?;
        }
        Ok(Copy {
            from,
            to,
            direction,
            staged: None,
        })
    }

    /// The current device needs access to memory of a pool, unless the copy is one between peers.
    pub(crate) fn check_reach(&self, device: usize, copy: &Copy) -> Result<(), Code> {
        let denied = |end: &Span| {
            let holding = self.memory.holding(end.address);
            matches!(end.memory, Memory::Device(owner) if holding.is_some_and(|it| it.pool.is_some())
                && self.check_device_access(device, owner, end.address).is_err())
        };
        match copy.direction != Direction::Peer && (denied(&copy.from) || denied(&copy.to)) {
            true => Err(Code::INVALID_VALUE),
            false => Ok(()),
        }
    }

    /// Checks an end against the direction: an end on a device must not be pageable memory, and one on the host must not be device memory.
    fn check_end(&self, end: &Span, device: bool) -> Result<(), Code> {
        let wrong = match end.memory {
            Memory::Pageable => device && !self.machine.profile.pageable_memory_access,
            Memory::Device(_) => !device,
            Memory::Managed(_) | Memory::Pinned => false,
        };
        match end.memory {
            _ if !wrong || end.bytes == 0 => Ok(()),
            Memory::Pageable => Err(self.memory.inaccessible(end.address)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Enqueues or captures a copy that was checked. Returns its end if a synchronous call must wait for it, or `waits` for pageable memory.
    pub(crate) fn copy(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        copy: Copy,
        waits: bool,
    ) -> Result<Option<Arc<Completion>>, Code> {
        let waits = waits || copy.to.memory == Memory::Pageable;
        let operation = Operation::Copy(copy);
        let done = self.submit(core, stream, operation, self.machine.cost.enqueue)?;
        Ok(done.filter(|_| waits))
    }

    /// Work begins and uses `spans`, the last of which it writes. Returns false if one of them was freed: the context is then poisoned.
    pub(super) fn begin_work(&mut self, number: usize, spans: &[Span]) -> bool {
        let begun = self.memory.begin_use(number, spans);
        if let Some(to) = spans.last().filter(|to| begun && to.bytes > 0)
            && let Some(allocation) = self.memory.holding(to.address)
        {
            allocation.write(to.address..to.address + to.bytes);
        }
        if !begun {
            let text = "work used memory that was freed before it began";
            self.context.fault(Code::ILLEGAL_ADDRESS, text);
        }
        begun
    }

    /// Populates the managed pages that a copy is the first to touch, and ends their duplicates.
    fn populate_target(&mut self, device: usize, to: &Span, direction: Direction) {
        let Some((base, pages)) = self.pages_in(to) else {
            return;
        };
        let on_host = matches!(direction, Direction::DeviceToHost | Direction::HostToHost);
        let home = if on_host || !self.machine.concurrent {
            HOST
        } else {
            Processor::device(device)
        };
        let mut uvm = self.uvm();
        uvm.populate(home, base, &pages);
        uvm.collapse(base, &pages);
    }

    /// Counts a copy; returns the time that it takes.
    fn count_copy(&mut self, from: &Span, to: &Span, ends: [End; 2]) -> Duration {
        if to.bytes == 0 {
            return Duration::ZERO;
        }
        let (bytes, cost) = (to.bytes as u64, &self.machine.cost);
        let counters = &mut self.records.counters;
        *match ends {
            [End::Device(_), End::Device(_)] => &mut counters.copied_device_to_device,
            [_, End::Device(_)] => &mut counters.copied_to_device,
            [End::Device(_), _] => &mut counters.copied_to_host,
            _ => &mut counters.copied_host_to_host,
        } += bytes;
        let pageable = ends.contains(&End::Pageable);
        let mut time = match ends {
            [End::Device(from), End::Device(to)] if from != to => {
                cost.peer_copy(self.devices.peer_link(from, to, By::Copy), bytes)
            }
            [End::Device(_), End::Device(_)] => cost.copy + at_rate(bytes, cost.device_rate),
            _ if pageable => cost.copy + at_rate(bytes, cost.pageable_rate),
            _ => cost.copy + at_rate(bytes, cost.pinned_rate),
        };
        let is_managed = |span: &Span| matches!(span.memory, Memory::Managed(_));
        if is_managed(from) || is_managed(to) {
            time += cost.copy_managed;
        }
        let to_or_from_device = ends.iter().any(|end| end.device().is_some());
        if pageable && to_or_from_device && to.bytes >= STAGED_FROM {
            time += cost.staging;
        }
        time
    }

    fn end_of(&self, span: &Span) -> End {
        match span.memory {
            Memory::Device(ordinal) => End::Device(ordinal),
            Memory::Pinned => End::Pinned,
            Memory::Managed(_) | Memory::Pageable => {
                let on_host = match span.memory {
                    Memory::Pageable => End::Pageable,
                    _ => End::Pinned,
                };
                let spread = self
                    .pages_in(span)
                    .map(|(base, pages)| self.managed.spread(base, &pages));
                spread.and_then(Spread::device).map_or(on_host, End::Device)
            }
        }
    }
}
