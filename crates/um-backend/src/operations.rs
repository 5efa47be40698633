//! The default methods of `Buffer`: one match over the kinds of memory each.
//!
//! A range is checked against the memory, whose length may be another one than `Buffer::len` of an implementation that is wrong; for opaque memory
//! by the implementation.

use std::io::{Read, Write};
use std::ops::Range;

use cuda_um::managed::not_managed;
use cuda_um::{
    Advice, HostMut, HostRef, Location, MemoryKind, PinnedBuffer, Stream, host_vec,
    managed::HintOutcome, range,
};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};

/// Bytes of host memory for work that has no direct way.
const STAGE_BYTES: usize = 4 << 20;

/// The pieces of a range that are staged one by one, and host memory for one of them.
pub(crate) fn staged<T: Element>(
    call: &'static str,
    range: Range<usize>,
) -> Result<(impl Iterator<Item = Range<usize>>, Vec<T>)> {
    let len = (STAGE_BYTES / size_of::<T>()).clamp(1, range.len().max(1));
    let stage = host_vec::zeroed(call, len.min(range.len()))?;
    let end = range.end;
    let pieces = range.step_by(len);
    Ok((pieces.map(move |start| start..end.min(start + len)), stage))
}

/// Refuses the host's work on memory of the host in a capture: it would be done once, and not in each launch.
pub(crate) fn check_capture() -> Result<()> {
    match cuda_um::graph::is_capturing() {
        false => Ok(()),
        true => Err(CudaError::Capture {
            call: "access of the host to memory of the host".to_owned(),
            reason: "the host would work at once, and not in each launch: do it before the capture, or between launches".to_owned(),
        }),
    }
}

fn not_overridden(method: &str) -> CudaError {
    CudaError::NotSupported {
        what: format!("`{method}` of a buffer with opaque memory"),
        needs: "an implementation of that method".into(),
        have: "only the default one".into(),
    }
}

pub(crate) fn put<T: Element>(
    memory: BufferMemoryMut<'_, T>,
    offset: usize,
    source: &[T],
) -> Result<()> {
    match memory {
        BufferMemoryMut::Host(elements) => {
            let range = range::check_at(offset, source.len(), elements.len())?;
            check_capture()?;
            elements[range].copy_from_slice(source);
            Ok(())
        }
        BufferMemoryMut::Cuda(mut view) => view.copy_from_host_at(offset, source),
        BufferMemoryMut::Opaque => Err(not_overridden("copy_from_host_at")),
    }
}

pub(crate) fn get<T: Element>(
    memory: BufferMemory<'_, T>,
    offset: usize,
    target: &mut [T],
) -> Result<()> {
    match memory {
        BufferMemory::Host(elements) => {
            let range = range::check_at(offset, target.len(), elements.len())?;
            check_capture()?;
            target.copy_from_slice(&elements[range]);
            Ok(())
        }
        BufferMemory::Cuda(view) => view.copy_to_host_at(offset, target),
        BufferMemory::Opaque => Err(not_overridden("copy_to_host_at")),
    }
}

/// The elements, borrowed if the host can use the memory, otherwise a copy.
pub(crate) fn host<T: Element>(buffer: &(impl Buffer<T> + ?Sized)) -> Result<HostRef<'_, T>> {
    match buffer.memory() {
        BufferMemory::Host(elements) => check_capture().map(|()| elements.into()),
        BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => view.host(),
        BufferMemory::Cuda(_) | BufferMemory::Opaque => buffer.to_vec().map(Into::into),
    }
}

pub(crate) fn host_mut<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
) -> Result<HostMut<'_, T>> {
    let in_place = match buffer.memory() {
        BufferMemory::Host(_) => true,
        BufferMemory::Cuda(view) => view.kind() != MemoryKind::Device,
        BufferMemory::Opaque => false,
    };
    if !in_place {
        let elements = buffer.to_vec()?;
        return Ok(HostMut::of_copy(elements, |elements| {
            buffer.copy_from_host(elements)
        }));
    }
    if matches!(buffer.memory_mut(), BufferMemoryMut::Opaque) {
        // The error of memory that the host must not write.
        buffer.copy_from_host_at(0, &[])?;
    }
    match buffer.memory_mut() {
        BufferMemoryMut::Host(elements) => check_capture().map(|()| elements.into()),
        // An implementation that changes its memory gets the error of the view.
        memory => memory.device_view_mut()?.into_host_mut(),
    }
}

/// Without a stream, the stream of the memory's device is used.
pub(crate) fn fill<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    part: Range<usize>,
    value: T,
    stream: Option<&Stream>,
) -> Result<()> {
    match buffer.memory_mut() {
        BufferMemoryMut::Host(elements) => {
            let part = range::check(part, elements.len())?;
            check_capture()?;
            elements[part].fill(value);
            Ok(())
        }
        BufferMemoryMut::Cuda(view) => {
            let mut part = view.slice(part)?;
            match stream {
                Some(stream) => part.fill_on(value, stream),
                None => part.fill_on(value, &part.device().default_stream()?),
            }
        }
        BufferMemoryMut::Opaque => {
            let part = range::check(part, buffer.len())?;
            let (mut pieces, mut stage) = staged("fill_range", part)?;
            stage.fill(value);
            pieces
                .try_for_each(|piece| buffer.copy_from_host_at(piece.start, &stage[..piece.len()]))
        }
    }
}

pub(crate) fn copy_within<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    from: Range<usize>,
    to: usize,
) -> Result<()> {
    match buffer.memory_mut() {
        BufferMemoryMut::Host(elements) => {
            let from = range::check(from, elements.len())?;
            range::check_at(to, from.len(), elements.len())?;
            check_capture()?;
            elements.copy_within(from, to);
            Ok(())
        }
        BufferMemoryMut::Cuda(mut view) => {
            let stream = view.device().default_stream()?;
            view.copy_within_on(from, to, &stream)
        }
        BufferMemoryMut::Opaque => {
            let from = range::check(from, buffer.len())?;
            range::check_at(to, from.len(), buffer.len())?;
            let mut stage = host_vec::zeroed("copy_within", from.len())?;
            buffer.copy_to_host_at(from.start, &mut stage)?;
            buffer.copy_from_host_at(to, &stage)
        }
    }
}

/// Without a stream, the stream of the memory's device is used.
pub(crate) fn prefetch<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    part: Range<usize>,
    location: Location,
    stream: Option<&Stream>,
) -> Result<HintOutcome> {
    match (buffer.memory(), stream) {
        (BufferMemory::Cuda(view), Some(stream)) => view.slice(part)?.prefetch_on(location, stream),
        (BufferMemory::Cuda(view), None) => view.slice(part)?.prefetch(location),
        (memory, _) => {
            range::check(part, buffer.len())?;
            Ok(not_managed("prefetch", &memory.in_words()))
        }
    }
}

pub(crate) fn advise<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    part: Range<usize>,
    advice: Advice,
) -> Result<HintOutcome> {
    match buffer.memory() {
        BufferMemory::Cuda(view) => view.slice(part)?.advise(advice),
        memory => {
            range::check(part, buffer.len())?;
            Ok(not_managed(&format!("{advice:?}"), &memory.in_words()))
        }
    }
}

pub(crate) fn copy_from_host_on<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    source: &[T],
    stream: &Stream,
) -> Result<()> {
    let BufferMemoryMut::Cuda(mut target) = buffer.memory_mut() else {
        return buffer.copy_from_host(source);
    };
    range::same_length("copy_from_host_on", target.len(), source.len())?;
    for piece in source.chunks((STAGE_BYTES / size_of::<T>()).max(1)) {
        let pinned = PinnedBuffer::from_slice(target.device(), piece)?;
        let at = piece.as_ptr().addr() - source.as_ptr().addr();
        let at = at / size_of::<T>();
        // The pinned memory returns to the pool after the copy.
        stream.copy(&pinned, &mut target.slice_mut(at..at + piece.len())?)?;
    }
    Ok(())
}

pub(crate) fn copy_to_host_on<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    target: &mut [T],
    stream: &Stream,
) -> Result<()> {
    let BufferMemory::Cuda(source) = buffer.memory() else {
        return buffer.copy_to_host(target);
    };
    range::same_length("copy_to_host_on", source.len(), target.len())?;
    let mut at = 0;
    for piece in target.chunks_mut((STAGE_BYTES / size_of::<T>()).max(1)) {
        let mut pinned = PinnedBuffer::zeroed(source.device(), piece.len())?;
        stream.copy(&source.slice(at..at + piece.len())?, &mut pinned)?;
        piece.copy_from_slice(&pinned.host()?);
        at += piece.len();
    }
    Ok(())
}

pub(crate) fn read_from<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    source: &mut dyn Read,
    part: Range<usize>,
) -> Result<()> {
    let part = range::check(part, buffer.len())?;
    let (mut pieces, mut stage) = staged::<T>("read_from", part.clone())?;
    pieces.try_for_each(|piece| {
        let stage = &mut stage[..piece.len()];
        let read = source.read_exact(bytemuck::cast_slice_mut(stage));
        read.map_err(|error| failed::<T>("read_from", &part, piece.start, error))?;
        buffer.copy_from_host_at(piece.start, stage)
    })
}

pub(crate) fn write_to<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    target: &mut dyn Write,
    part: Range<usize>,
) -> Result<()> {
    let part = range::check(part, buffer.len())?;
    let (mut pieces, mut stage) = staged::<T>("write_to", part.clone())?;
    pieces.try_for_each(|piece| {
        let stage = &mut stage[..piece.len()];
        buffer.copy_to_host_at(piece.start, stage)?;
        let written = target.write_all(bytemuck::cast_slice(stage));
        written.map_err(|error| failed::<T>("write_to", &part, piece.start, error))
    })
}

/// The error of a file. `next` is the first element that is not copied yet.
fn failed<T>(
    call: &'static str,
    part: &Range<usize>,
    next: usize,
    source: std::io::Error,
) -> CudaError {
    CudaError::Io {
        call,
        done_bytes: (next - part.start) * size_of::<T>(),
        total_bytes: part.len() * size_of::<T>(),
        source,
    }
}
