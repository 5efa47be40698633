//! Allocates the buffers of a trace again.
#![allow(
    unsafe_code,
    reason = "treats the simulator's fresh memory as initialised"
)]

use crate::replay::change::{Change, Changes};
use cuda_um::{
    Device, DeviceBuffer, Placement, Stream, UnifiedBuffer, UnifiedOptions, kernel::Arguments,
};
use cuda_um_trace::{Buffer, Place, RecordKind, Trace};
use std::ops::Range;

const PAGE: usize = 4096;

/// Memory that represents a recorded buffer.
pub(crate) enum Memory {
    /// Managed, or mapped pinned memory.
    Unified(UnifiedBuffer<u8>),
    /// Device memory.
    Device(DeviceBuffer<u8>),
}

/// Runs the same code for either kind.
macro_rules! either {
    ($memory:expr, $name:ident => $do:expr) => {
        match $memory {
            Memory::Unified($name) => $do,
            Memory::Device($name) => $do,
        }
    };
}

impl Memory {
    /// Allocates a buffer like the recorded one: fresh, and of the recorded kind unless a change says otherwise.
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
        // SAFETY: the simulator's memory consists of zero pages and of bytes that it has set. The replay reads it only to touch
        // it.
        let mut memory = unsafe { fresh.assume_init() };
        memory.set_name(buffer.name.as_str());
        if !mapped {
            for change in changes.of(&buffer.name) {
                if let Change::Advise(advice) = change {
                    memory.advise(*advice)?.require()?;
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

    /// Adds a range of the buffer to the arguments of a kernel.
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

    /// Copies a range of another buffer to an offset of this buffer.
    pub(crate) fn copy_from(
        &mut self,
        offset: usize,
        source: &Memory,
        range: Range<usize>,
        stream: &Stream,
    ) -> cuda_um::Result<()> {
        either!(self, to => either!(source, from => stream.copy_range(from, range, to, offset)))
    }

    /// Copies from the program's own memory.
    pub(crate) fn copy_from_host(&mut self, range: Range<usize>) -> cuda_um::Result<()> {
        either!(self, memory => memory.copy_from_host_at(range.start, &vec![1; range.len()]))
    }

    /// Copies to the program's own memory.
    pub(crate) fn copy_to_host(&self, range: Range<usize>) -> cuda_um::Result<()> {
        either!(self, memory => memory.copy_to_host_at(range.start, &mut vec![0; range.len()]))
    }

    /// Fills the whole buffer.
    pub(crate) fn fill(&mut self, stream: &Stream) -> cuda_um::Result<()> {
        either!(self, memory => memory.fill_on(1, stream))
    }

    /// The managed buffer, or `None`.
    pub(crate) fn managed(&self) -> Option<&UnifiedBuffer<u8>> {
        match self {
            Self::Unified(memory) if memory.placement().placement == Placement::Managed => {
                Some(memory)
            }
            _ => None,
        }
    }
}

/// The locations of buffers at the begin of the trace, derived from their first migration.
pub(crate) struct PlacesAtStart {
    /// The addresses of migrations, in ascending order.
    addresses: Vec<u64>,
    /// The index in the trace and the source location of each migration, as leaves of a tree. Each inner node holds the earlier
    /// one of its children.
    first: Vec<(usize, Place)>,
}

impl PlacesAtStart {
    pub(crate) fn of(trace: &Trace) -> Self {
        let records = trace.records.iter().enumerate();
        let mut migrations: Vec<(u64, usize, Place)> = records
            .filter_map(|(index, record)| match record.kind {
                RecordKind::Migration { from, .. } => Some((record.address, index, from)),
                _ => None,
            })
            .collect();
        migrations.sort_unstable();
        let leaves = migrations.iter().map(|&(_, index, from)| (index, from));
        let count = migrations.len();
        let mut first = vec![(usize::MAX, Place::Host); count];
        first.extend(leaves);
        for node in (1..count).rev() {
            first[node] = first[2 * node].min(first[2 * node + 1]);
        }
        Self {
            addresses: migrations.iter().map(|&(address, ..)| address).collect(),
            first,
        }
    }

    /// The location of a buffer at the begin of the trace.
    pub(crate) fn place(&self, buffer: &Buffer) -> Place {
        let leaf = |address: u64| {
            self.addresses.len() + self.addresses.partition_point(|&other| other < address)
        };
        let (mut from, mut until) = (leaf(buffer.address), leaf(buffer.address + buffer.bytes));
        let mut earliest = (usize::MAX, Place::Device(buffer.device));
        while from < until {
            if from % 2 == 1 {
                earliest = earliest.min(self.first[from]);
                from += 1;
            }
            if until % 2 == 1 {
                until -= 1;
                earliest = earliest.min(self.first[until]);
            }
            from /= 2;
            until /= 2;
        }
        earliest.1
    }
}

#[cfg(test)]
mod tests {
    use super::PlacesAtStart;
    use cuda_um_trace::{Buffer, Cause, Place, Record, RecordKind, Trace};

    fn buffer(address: u64, bytes: u64) -> Buffer {
        Buffer {
            id: 1,
            name: String::new(),
            site: None,
            address,
            bytes,
            element_bytes: 1,
            managed: true,
            slab: None,
            device: 9,
            allocated: None,
            freed: None,
        }
    }

    #[test]
    fn the_first_migration_of_the_trace_tells() {
        let from = |address: u64, from: u32| Record {
            kind: RecordKind::Migration {
                from: Place::Device(from),
                to: Place::Host,
                bytes: 1,
                cause: Cause::User,
            },
            address,
            start: 0,
            end: 0,
        };
        let addresses = [50, 20, 80, 20, 30, 10, 60];
        for count in 0..=addresses.len() {
            let records = addresses[..count].iter().zip(0..);
            let trace = Trace {
                records: records
                    .map(|(&address, number)| from(address, number))
                    .collect(),
                ..Trace::default()
            };
            let places = PlacesAtStart::of(&trace);
            for begin in 0..90 {
                for bytes in 0..90 {
                    let inside = |address: &u64| (begin..begin + bytes).contains(address);
                    let first = addresses[..count].iter().position(inside);
                    let place = Place::Device(first.map_or(9, |first| first as u32));
                    assert_eq!(
                        places.place(&buffer(begin, bytes)),
                        place,
                        "{begin} {bytes}"
                    );
                }
            }
        }
    }
}
