//! Access of the host to any buffer: borrowed if the host can use the memory, otherwise by a copy.

use cuda_um::{HostMut, HostRef, MemoryKind};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

pub(crate) fn read<T: Element>(buffer: &(impl Buffer<T> + ?Sized)) -> Result<HostRef<'_, T>> {
    Ok(match buffer.memory() {
        BufferMemory::Host(elements) => elements.into(),
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
        BufferMemoryMut::Host(elements) => Ok(elements.into()),
        // An implementation that changes its memory gets the error of the view.
        memory => Ok(memory.device_view_mut()?.into_host_mut()?),
    }
}
