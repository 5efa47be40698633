//! Copies between any two implementations.

use std::ops::Range;

use cuda_um::{MemoryKind, Stream, View, ViewMut, host_vec, range, resource::UnifiedMemory};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};
use crate::host_access::check_capture;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::range_ops::piece_of;

/// Bytes of host memory for a copy that has no direct way.
pub(crate) const STAGE_BYTES: usize = 4 << 20;

/// Checks both ranges, and returns the range of the target.
pub(crate) fn ranges(
    offset: usize,
    target_len: usize,
    source: &Range<usize>,
    source_len: usize,
) -> Result<Range<usize>> {
    let source = range::check(source.clone(), source_len)?;
    range::check_at(offset, source.len(), target_len)
}

/// Copies a range of a buffer to a range of the same length.
pub(crate) fn copy<T: Element>(
    target: &mut (impl Buffer<T> + ?Sized),
    to: Range<usize>,
    source: &(impl Buffer<T> + ?Sized),
    from: Range<usize>,
    stream: Option<&Stream>,
) -> Result<()> {
    let start = to.start;
    if direct(
        target.memory_mut(),
        to,
        source.memory(),
        from.clone(),
        stream,
    )? {
        return Ok(());
    }
    staged(
        from,
        |from, stage| source.copy_to_host_at(from, stage),
        |at, stage| target.copy_from_host_at(start + at, stage),
    )
}

/// Copies without staging if that is possible. Otherwise returns `false`, with nothing done. Without a stream, the stream of the target's
/// device is used.
pub(crate) fn direct<T: Element>(
    target: BufferMemoryMut<'_, T>,
    to: Range<usize>,
    source: BufferMemory<'_, T>,
    from: Range<usize>,
    stream: Option<&Stream>,
) -> Result<bool> {
    // The ranges were checked against `Buffer::len`, which another implementation may get wrong: they are checked against the memory, too.
    match (source, target) {
        (BufferMemory::Opaque, _) | (_, BufferMemoryMut::Opaque) => return Ok(false),
        (BufferMemory::Cuda(source), BufferMemoryMut::Cuda(target)) => {
            let (source, target) = (source.slice(from)?, target.slice(to)?);
            if stream.is_none() && is_staged(&source, &target) {
                return by_host(source, target).map(|()| true);
            }
            return by_cuda(source, target, stream);
        }
        (source, BufferMemoryMut::Host(target)) => {
            check_capture()?;
            let to = range::check(to, target.len())?;
            source.copy_to_host_at(from.start, &mut target[to])?;
        }
        (BufferMemory::Host(source), target) => {
            check_capture()?;
            let from = range::check(from, source.len())?;
            target.copy_from_host_at(to.start, &source[from])?;
        }
    }
    Ok(true)
}

/// Whether one side is system memory that the driver would stage on one thread: the library's copies from and to the host are faster.
fn is_staged<T>(source: &View<'_, T>, target: &ViewMut<'_, T>) -> bool {
    let is_system = [source.kind(), target.kind()].contains(&MemoryKind::System);
    let level = target.device().capabilities().unified_memory();
    is_system && level == UnifiedMemory::FullSoftware
}

fn by_host<T: Element>(source: View<'_, T>, mut target: ViewMut<'_, T>) -> Result<()> {
    match target.kind() {
        MemoryKind::System => source.copy_to_host(&mut target.host_mut()?),
        _ => target.copy_from_host(&source.host()?),
    }
}

fn by_cuda<T: Element>(
    source: View<'_, T>,
    mut target: ViewMut<'_, T>,
    stream: Option<&Stream>,
) -> Result<bool> {
    let copied = match stream {
        Some(stream) => stream.copy(&source, &mut target),
        None => target.device().default_stream()?.copy(&source, &mut target),
    };
    match copied {
        Ok(()) => Ok(true),
        // Two runtimes (a GPU's and a simulator's, for example), or memory that the target's device cannot reach: copy through the host.
        Err(CudaError::RuntimeMismatch { .. } | CudaError::DeviceMismatch { .. })
            if stream.is_none() =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Copies through host memory, piece by piece. `read` takes an index of the source, `write` an index of the range.
pub(crate) fn staged<T: Element>(
    range: Range<usize>,
    mut read: impl FnMut(usize, &mut [T]) -> Result<()>,
    mut write: impl FnMut(usize, &[T]) -> Result<()>,
) -> Result<()> {
    let piece = piece_of::<T>(range.len()).min(range.len());
    let mut stage = host_vec::zeroed("copy_from_buffer", piece)?;
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

    const LARGE: usize = STAGE_BYTES + 1;

    #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(transparent)]
    struct Large([u8; LARGE]);

    impl Element for Large {
        const DTYPE: crate::DType = crate::DType::Opaque(LARGE);
    }

    #[test]
    fn an_element_may_be_larger_than_a_piece() {
        let mut copied = Vec::new();
        let read = |from: usize, stage: &mut [Large]| {
            assert_eq!(stage.len(), 1);
            stage[0].0[0] = from as u8;
            Ok(())
        };
        let write = |at: usize, stage: &[Large]| {
            copied.push((at, stage[0].0[0]));
            Ok(())
        };
        staged(1..3, read, write).unwrap();
        assert_eq!(copied, [(0, 1), (1, 2)]);
    }

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
