//! The buffers of a trace, made anew.
#![allow(
    unsafe_code,
    reason = "takes the simulator's fresh memory for initialised"
)]

use crate::change::{Change, Changes};
use cuda_um::{Arguments, Device, DeviceBuffer, Placement, Stream, UnifiedBuffer, UnifiedOptions};
use cuda_um_trace::{Buffer, Place, RecordKind, Trace};
use std::ops::Range;

const PAGE: usize = 4096;

/// Memory that stands for a recorded buffer.
pub(crate) enum Memory {
    /// Managed, or mapped pinned memory.
    Unified(UnifiedBuffer<u8>),
    /// The device's own.
    Device(DeviceBuffer<u8>),
}

/// The same for either kind.
macro_rules! either {
    ($memory:expr, $name:ident => $do:expr) => {
        match $memory {
            Memory::Unified($name) => $do,
            Memory::Device($name) => $do,
        }
    };
}

impl Memory {
    /// Makes a buffer as it was made: fresh, and of the recorded kind unless changed.
    pub(crate) fn make(
        device: &Device,
        buffer: &Buffer,
        host_uses_it: bool,
        changes: &Changes,
    ) -> cuda_um::Result<Self> {
        let len = buffer.bytes as usize;
        if !buffer.managed && !host_uses_it {
            let mut memory = DeviceBuffer::zeroed(device, len)?;
            memory.set_name(buffer.name.as_str());
            return Ok(Self::Device(memory));
        }
        let mapped = !buffer.managed || changes.has(&buffer.name, &Change::Mapped);
        let placement = if mapped {
            Placement::Mapped
        } else {
            Placement::Managed
        };
        let options = UnifiedOptions::default().placement(placement);
        let fresh = UnifiedBuffer::<u8>::uninit(device, len, options)?;
        // SAFETY: the simulator's memory is made of zero pages and of bytes that it has set; nothing reads it but to touch it.
        let mut memory = unsafe { fresh.assume_init() };
        memory.set_name(buffer.name.as_str());
        if !mapped {
            for change in changes.of(&buffer.name) {
                if let Change::Advise(advice) = change {
                    memory.advise(*advice)?;
                }
            }
        }
        Ok(Self::Unified(memory))
    }

    /// The host touches each page of a range.
    pub(crate) fn touch(&mut self, range: Range<usize>, write: bool) -> cuda_um::Result<()> {
        let Self::Unified(memory) = self else {
            return Ok(());
        };
        if write {
            let mut guard = memory.host_mut()?;
            guard[range]
                .chunks_mut(PAGE)
                .for_each(|page| page[0] = std::hint::black_box(1));
        } else {
            let guard = memory.host()?;
            let sum: u64 = guard[range]
                .chunks(PAGE)
                .map(|page| u64::from(page[0]))
                .sum();
            std::hint::black_box(sum);
        }
        Ok(())
    }

    /// Adds a range of it to the arguments of a kernel.
    pub(crate) fn push<'a>(
        &'a mut self,
        arguments: &mut Arguments<'a>,
        range: Range<usize>,
        write: bool,
    ) -> cuda_um::Result<()> {
        either!(self, memory => if write {
            arguments.push(memory.view_mut(range)?);
        } else {
            arguments.push(memory.view(range)?);
        });
        Ok(())
    }

    /// Copies a range of another buffer to an offset of it.
    pub(crate) fn copy_from(
        &mut self,
        offset: usize,
        source: &Memory,
        range: Range<usize>,
        stream: &Stream,
    ) -> cuda_um::Result<()> {
        either!(self, to => either!(source, from => stream.copy_range(from, range, to, offset)))
    }

    /// Copies from memory of the program's own.
    pub(crate) fn copy_from_host(&mut self, range: Range<usize>) -> cuda_um::Result<()> {
        either!(self, memory => memory.copy_from_host_at(range.start, &vec![1; range.len()]))
    }

    /// Copies to memory of the program's own.
    pub(crate) fn copy_to_host(&self, range: Range<usize>) -> cuda_um::Result<()> {
        either!(self, memory => memory.copy_to_host_at(range.start, &mut vec![0; range.len()]))
    }

    /// Fills all of it.
    pub(crate) fn fill(&mut self, stream: &Stream) -> cuda_um::Result<()> {
        either!(self, memory => memory.fill(1, stream))
    }

    /// The managed buffer, if it is one.
    pub(crate) fn managed(&self) -> Option<&UnifiedBuffer<u8>> {
        match self {
            Self::Unified(memory) if memory.placement().placement == Placement::Managed => {
                Some(memory)
            }
            _ => None,
        }
    }
}

/// Where a buffer was when the trace began, as far as its first migration tells: before that, nobody had to move it.
pub(crate) fn place_at_start(trace: &Trace, buffer: &Buffer) -> Place {
    let range = buffer.address..buffer.address + buffer.bytes;
    trace
        .records
        .iter()
        .find_map(|record| match record.kind {
            RecordKind::Migration { from, .. } if range.contains(&record.address) => Some(from),
            _ => None,
        })
        .unwrap_or(Place::Device(buffer.device))
}
