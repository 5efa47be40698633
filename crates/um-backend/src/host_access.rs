//! Access of the host to any buffer: borrowed if the host can use the memory, otherwise by a copy.

use cuda_um::{HostMut, HostRef, MemoryKind};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};

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

pub(crate) fn read<T: Element>(buffer: &(impl Buffer<T> + ?Sized)) -> Result<HostRef<'_, T>> {
    Ok(match buffer.memory() {
        BufferMemory::Host(elements) => {
            check_capture()?;
            elements.into()
        }
        BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => view.host()?,
        BufferMemory::Cuda(_) | BufferMemory::Opaque => buffer.to_vec()?.into(),
    })
}

pub(crate) fn write<T: Element>(buffer: &mut (impl Buffer<T> + ?Sized)) -> Result<HostMut<'_, T>> {
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
        BufferMemoryMut::Host(elements) => {
            check_capture()?;
            Ok(elements.into())
        }
        // An implementation that changes its memory gets the error of the view.
        memory => Ok(memory.device_view_mut()?.into_host_mut()?),
    }
}
