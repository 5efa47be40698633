//! Access of the host to any buffer: borrowed if the host can use the memory, otherwise by a copy.

use cuda_um::{HostMut, HostRef, MemoryKind};

use crate::access::Access;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

pub(crate) fn read<T: Element>(buffer: &(impl Access<T> + ?Sized)) -> Result<HostRef<'_, T>> {
    Ok(match buffer.read_memory() {
        BufferMemory::Host(elements) => elements.into(),
        BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => view.host()?,
        BufferMemory::Cuda(_) | BufferMemory::Opaque => buffer.get_all()?.into(),
    })
}

pub(crate) fn write<T: Element>(buffer: &mut (impl Access<T> + ?Sized)) -> Result<HostMut<'_, T>> {
    let in_place = match buffer.read_memory() {
        BufferMemory::Host(_) => true,
        BufferMemory::Cuda(view) => view.kind() != MemoryKind::Device,
        BufferMemory::Opaque => false,
    };
    if !in_place {
        let elements = buffer.get_all()?;
        return Ok(HostMut::of_copy(elements, |elements| {
            buffer.put_all(elements)
        }));
    }
    if matches!(buffer.write_memory(), BufferMemoryMut::Opaque) {
        // The error of memory that the host must not write.
        buffer.put(0, &[])?;
    }
    match buffer.write_memory() {
        BufferMemoryMut::Host(elements) => Ok(elements.into()),
        // An implementation that changes its memory gets the error of the view.
        memory => Ok(memory.device_view_mut()?.into_host_mut()?),
    }
}
