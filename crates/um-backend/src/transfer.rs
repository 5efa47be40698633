//! Copies between any two implementations.

use std::ops::Range;

use cuda_um::Memory;

use crate::dtype::Element;
use crate::error::Result;
use crate::host_memory;
use crate::memory::{BufferMemory, BufferMemoryMut, check_range, within};

/// Bytes of host memory through which a copy goes that cannot go directly.
const STAGE_BYTES: usize = 4 << 20;

/// Checks both ranges; gives that of the target.
pub(crate) fn ranges(
    offset: usize,
    target_len: usize,
    range: &Range<usize>,
    source_len: usize,
) -> Result<Range<usize>> {
    let range = check_range(range.clone(), source_len)?;
    within(offset, range.len(), target_len)
}

/// Copies without a detour, where that can be; else it says `false` and has done nothing.
pub(crate) fn direct<T: Element>(
    target: BufferMemoryMut<'_, T>,
    to: Range<usize>,
    source: BufferMemory<'_, T>,
    from: Range<usize>,
) -> Result<bool> {
    match (source, target) {
        (BufferMemory::Opaque, _) | (_, BufferMemoryMut::Opaque) => return Ok(false),
        // Which may be shorter than the buffer says: an implementation's length is its own.
        (source, BufferMemoryMut::Host(target)) => {
            let to = check_range(to, target.len())?;
            source.copy_to_host_at(from.start, &mut target[to])?
        }
        (BufferMemory::Host(source), target) => {
            let from = check_range(from, source.len())?;
            target.copy_from_host_at(to.start, &source[from])?
        }
        (BufferMemory::Device(source), target) => return between(source, from, target, to),
        (BufferMemory::Unified(source), target) => return between(source, from, target, to),
        (BufferMemory::Pinned(source), target) => return between(source, from, target, to),
    }
    Ok(true)
}

fn between<T: Element>(
    source: &impl Memory<T>,
    from: Range<usize>,
    target: BufferMemoryMut<'_, T>,
    to: Range<usize>,
) -> Result<bool> {
    match target {
        BufferMemoryMut::Device(target) => {
            enqueue(source, from, &target.device().clone(), target, to)
        }
        BufferMemoryMut::Unified(target) => {
            enqueue(source, from, &target.device().clone(), target, to)
        }
        BufferMemoryMut::Pinned(target) => {
            enqueue(source, from, &target.device().clone(), target, to)
        }
        BufferMemoryMut::Host(_) | BufferMemoryMut::Opaque => Ok(false),
    }
}

/// A copy that CUDA makes, on the stream of the target's device.
fn enqueue<T: Element>(
    source: &impl Memory<T>,
    from: Range<usize>,
    device: &cuda_um::Device,
    target: &mut impl Memory<T>,
    to: Range<usize>,
) -> Result<bool> {
    match device
        .default_stream()?
        .copy_range(source, from, target, to.start)
    {
        Ok(()) => Ok(true),
        // Two runtimes, a GPU's and a simulator's for example, or memory that the target's device cannot reach: the host is where they
        // meet.
        Err(cuda_um::Error::RuntimeMismatch { .. } | cuda_um::Error::DeviceMismatch { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Copies through host memory, piece by piece: `read(from, stage)`, then `write(at, stage)`, `at` counted from 0.
pub(crate) fn staged<T: Element>(
    range: Range<usize>,
    mut read: impl FnMut(usize, &mut [T]) -> Result<()>,
    mut write: impl FnMut(usize, &[T]) -> Result<()>,
) -> Result<()> {
    let piece = (STAGE_BYTES / size_of::<T>()).min(range.len());
    let mut stage = host_memory::zeroed(piece)?;
    let mut from = range.start;
    while from < range.end {
        let stage = &mut stage[..piece.min(range.end - from)];
        read(from, stage)?;
        write(from - range.start, stage)?;
        from += stage.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_copy_has_every_piece() {
        let source: Vec<u32> = (0..3 << 20).collect();
        let mut target = vec![0; source.len() - 5];
        let read = |from: usize, stage: &mut [u32]| {
            stage.copy_from_slice(&source[from..from + stage.len()]);
            Ok(())
        };
        staged(5..source.len(), read, |at, stage| {
            target[at..at + stage.len()].copy_from_slice(stage);
            Ok(())
        })
        .unwrap();
        assert_eq!(target, source[5..]);
    }
}
