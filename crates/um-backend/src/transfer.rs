//! Copies between any two implementations.

use std::ops::Range;

use cuda_um::{MemoryKind, Stream, View, ViewMut, range, resource::UnifiedMemory};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::operations::{check_capture, staged};

/// Copies a range of a buffer to a range of the same length. Without a stream, the stream of the target's device is used.
pub(crate) fn copy<T: Element>(
    target: &mut (impl Buffer<T> + ?Sized),
    to: usize,
    source: &(impl Buffer<T> + ?Sized),
    from: Range<usize>,
    stream: Option<&Stream>,
) -> Result<()> {
    let from = range::check(from, source.len())?;
    range::check_at(to, from.len(), target.len())?;
    // The memory of an implementation that is wrong about its length is checked, too.
    match (source.memory(), target.memory_mut()) {
        (BufferMemory::Cuda(source), BufferMemoryMut::Cuda(target)) => {
            let target = target.slice(to..to + from.len())?;
            if on_device(source.slice(from.clone())?, target, stream)? {
                return Ok(());
            }
        }
        (_, BufferMemoryMut::Host(target)) => {
            check_capture()?;
            let to = range::check_at(to, from.len(), target.len())?;
            return source.copy_to_host_at(from.start, &mut target[to]);
        }
        (BufferMemory::Host(source), _) => {
            check_capture()?;
            let from = range::check(from, source.len())?;
            return target.copy_from_host_at(to, &source[from]);
        }
        _ => {}
    }
    let start = from.start;
    let (mut pieces, mut stage) = staged("copy_from_buffer", from)?;
    pieces.try_for_each(|piece| {
        let stage = &mut stage[..piece.len()];
        source.copy_to_host_at(piece.start, stage)?;
        target.copy_from_host_at(to + (piece.start - start), stage)
    })
}

/// Copies without staging if that is possible. Otherwise returns `false`, with nothing done.
fn on_device<T: Element>(
    source: View<'_, T>,
    mut target: ViewMut<'_, T>,
    stream: Option<&Stream>,
) -> Result<bool> {
    let copied = match stream {
        Some(stream) => return stream.copy(&source, &mut target).map(|()| true),
        None if is_staged(&source, &target) => match target.kind() {
            MemoryKind::System => source.copy_to_host(&mut target.host_mut()?),
            _ => target.copy_from_host(&source.host()?),
        },
        None => target.device().default_stream()?.copy(&source, &mut target),
    };
    match copied {
        // Two runtimes (a GPU's and a simulator's, for example), or memory that the target's device cannot reach: copy through the host.
        Err(CudaError::RuntimeMismatch { .. } | CudaError::DeviceMismatch { .. }) => Ok(false),
        copied => copied.map(|()| true),
    }
}

/// Whether one side is system memory that the driver would stage on one thread: the library's copies from and to the host are faster.
fn is_staged<T>(source: &View<'_, T>, target: &ViewMut<'_, T>) -> bool {
    let is_system = [source.kind(), target.kind()].contains(&MemoryKind::System);
    let level = target.device().capabilities().unified_memory();
    is_system && level == UnifiedMemory::FullSoftware
}
