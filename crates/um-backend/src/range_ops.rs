//! Operations on ranges of any buffer, and on a stream of the caller's choice.

use std::ops::Range;

use cuda_um::managed::not_managed;
use cuda_um::{Advice, HintOutcome, Location, Stream, View, ViewMut, host_vec, range};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::transfer::STAGE_BYTES;

pub(crate) fn fill<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    part: Range<usize>,
    value: T,
    stream: Option<&Stream>,
) -> Result<()> {
    let part = range::check(part, buffer.len())?;
    if buffer
        .memory_mut()
        .fill_range(part.clone(), value, stream)?
    {
        return Ok(());
    }
    let mut stage = host_vec::zeroed("fill_range", piece_of::<T>(part.len()))?;
    stage.fill(value);
    for piece in pieces::<T>(part) {
        buffer.copy_from_host_at(piece.start, &stage[..piece.len()])?;
    }
    Ok(())
}

pub(crate) fn copy_within<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    from: Range<usize>,
    to: usize,
) -> Result<()> {
    let from = range::check(from, buffer.len())?;
    range::check_at(to, from.len(), buffer.len())?;
    if buffer.memory_mut().copy_within(from.clone(), to)? {
        return Ok(());
    }
    let mut stage = host_vec::zeroed("copy_within", from.len())?;
    buffer.copy_to_host_at(from.start, &mut stage)?;
    buffer.copy_from_host_at(to, &stage)
}

/// Prefetches a range. Without a stream, the stream of the memory's device is used.
pub(crate) fn prefetch<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    part: Range<usize>,
    location: Location,
    stream: Option<&Stream>,
) -> Result<HintOutcome> {
    let part = range::check(part, buffer.len())?;
    match (buffer.memory(), stream) {
        (BufferMemory::Cuda(view), Some(stream)) => {
            Ok(view.slice(part)?.prefetch_on(location, stream)?)
        }
        (BufferMemory::Cuda(view), None) => Ok(view.slice(part)?.prefetch(location)?),
        (memory, _) => Ok(not_managed("prefetch", &memory.in_words())),
    }
}

pub(crate) fn advise<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    part: Range<usize>,
    advice: Advice,
) -> Result<HintOutcome> {
    let part = range::check(part, buffer.len())?;
    match buffer.memory() {
        BufferMemory::Cuda(view) => Ok(view.slice(part)?.advise(advice)?),
        memory => Ok(not_managed(&format!("{advice:?}"), &memory.in_words())),
    }
}

/// Copies from the host on a stream, through pinned memory of the device's pool.
pub(crate) fn copy_from_host_on<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    source: &[T],
    stream: &Stream,
) -> Result<()> {
    range::same_length("copy_from_host_on", buffer.len(), source.len())?;
    match buffer.memory_mut() {
        BufferMemoryMut::Cuda(target) => put(target, source, stream),
        BufferMemoryMut::Host(_) | BufferMemoryMut::Opaque => buffer.copy_from_host(source),
    }
}

fn put<T: Element>(mut target: ViewMut<'_, T>, source: &[T], stream: &Stream) -> Result<()> {
    range::same_length("copy_from_host_on", target.len(), source.len())?;
    for piece in pieces::<T>(0..source.len()) {
        let pinned = cuda_um::PinnedBuffer::from_slice(target.device(), &source[piece.clone()])?;
        // The pinned memory returns to the pool after the copy.
        stream.copy(&pinned, &mut target.slice_mut(piece)?)?;
    }
    Ok(())
}

/// Copies to the host on a stream, through pinned memory of the device's pool.
pub(crate) fn copy_to_host_on<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    target: &mut [T],
    stream: &Stream,
) -> Result<()> {
    range::same_length("copy_to_host_on", buffer.len(), target.len())?;
    match buffer.memory() {
        BufferMemory::Cuda(source) => get(source, target, stream),
        BufferMemory::Host(_) | BufferMemory::Opaque => buffer.copy_to_host_at(0, target),
    }
}

fn get<T: Element>(source: View<'_, T>, target: &mut [T], stream: &Stream) -> Result<()> {
    range::same_length("copy_to_host_on", source.len(), target.len())?;
    if target.is_empty() {
        return Ok(());
    }
    let mut pinned = cuda_um::PinnedBuffer::zeroed(source.device(), piece_of::<T>(target.len()))?;
    for piece in pieces::<T>(0..target.len()) {
        stream.copy(
            &source.slice(piece.clone())?,
            &mut pinned.view_mut(..piece.len())?,
        )?;
        target[piece.clone()].copy_from_slice(&pinned.host()?[..piece.len()]);
    }
    Ok(())
}

/// The number of elements of a piece of `len` elements that are staged.
pub(crate) fn piece_of<T>(len: usize) -> usize {
    (STAGE_BYTES / size_of::<T>()).clamp(1, len.max(1))
}

/// The pieces of a range that are staged one by one.
pub(crate) fn pieces<T>(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let len = piece_of::<T>(range.len());
    let end = range.end;
    range
        .step_by(len)
        .map(move |start| start..end.min(start + len))
}
