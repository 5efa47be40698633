//! Copies between buffers and files, sockets or any other reader and writer.

use std::io::{Read, Write};
use std::ops::Range;

use cuda_um::{host_vec, range};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::range_ops::{piece_of, pieces};

pub(crate) fn read_from<T: Element>(
    buffer: &mut (impl Buffer<T> + ?Sized),
    source: &mut dyn Read,
    part: Range<usize>,
) -> Result<()> {
    let part = range::check(part, buffer.len())?;
    let mut stage = Vec::new();
    for piece in pieces::<T>(part.clone()) {
        let done = Done("read_from", size_of::<T>(), &part, piece.start);
        if let BufferMemoryMut::Host(elements) = buffer.memory_mut() {
            let piece = range::check(piece, elements.len())?;
            let bytes = bytemuck::cast_slice_mut(&mut elements[piece]);
            source
                .read_exact(bytes)
                .map_err(|error| done.failed(error))?;
            continue;
        }
        if stage.is_empty() {
            stage = host_vec::zeroed::<T>("read_from", piece_of::<T>(part.len()))?;
        }
        let stage = &mut stage[..piece.len()];
        let bytes = bytemuck::cast_slice_mut(stage);
        source
            .read_exact(bytes)
            .map_err(|error| done.failed(error))?;
        buffer.copy_from_host_at(piece.start, stage)?;
    }
    Ok(())
}

pub(crate) fn write_to<T: Element>(
    buffer: &(impl Buffer<T> + ?Sized),
    target: &mut dyn Write,
    part: Range<usize>,
) -> Result<()> {
    let part = range::check(part, buffer.len())?;
    let mut stage = Vec::new();
    for piece in pieces::<T>(part.clone()) {
        let done = Done("write_to", size_of::<T>(), &part, piece.start);
        let elements = match buffer.memory() {
            BufferMemory::Host(elements) => &elements[range::check(piece, elements.len())?],
            BufferMemory::Cuda(_) | BufferMemory::Opaque => {
                if stage.is_empty() {
                    stage = host_vec::zeroed::<T>("write_to", piece_of::<T>(part.len()))?;
                }
                buffer.copy_to_host_at(piece.start, &mut stage[..piece.len()])?;
                &stage[..piece.len()]
            }
        };
        let bytes = bytemuck::cast_slice(elements);
        target
            .write_all(bytes)
            .map_err(|error| done.failed(error))?;
    }
    Ok(())
}

/// The call, the size of an element, the range, and the first element that is not copied yet.
struct Done<'a>(&'static str, usize, &'a Range<usize>, usize);

impl Done<'_> {
    fn failed(&self, source: std::io::Error) -> CudaError {
        let Self(call, element_bytes, part, next) = self;
        CudaError::Io {
            call,
            done_bytes: (next - part.start) * element_bytes,
            total_bytes: part.len() * element_bytes,
            source,
        }
    }
}
