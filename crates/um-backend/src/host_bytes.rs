//! Plain memory of the CPU that is aligned for elements of any type.

use bytemuck::{Pod, Zeroable};

use cuda_um::Device;

use crate::buffer::Buffer;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Block([u8; 64]);

#[derive(Debug)]
pub(crate) struct HostBytes {
    blocks: Vec<Block>,
    len: usize,
}

impl HostBytes {
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        let count = len.div_ceil(size_of::<Block>());
        let mut made = cuda_um::host_vec::zeroed("create_erased", count);
        if let Err(CudaError::OutOfMemory {
            subject,
            requested_bytes,
            ..
        }) = &mut made
        {
            // The caller does not know the blocks.
            (*subject, *requested_bytes) = ("host memory".to_owned(), len);
        }
        Ok(Self { blocks: made?, len })
    }
}

impl Buffer<u8> for HostBytes {
    fn len(&self) -> usize {
        self.len
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, u8> {
        BufferMemory::Host(&bytemuck::cast_slice(&self.blocks)[..self.len])
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, u8> {
        BufferMemoryMut::Host(&mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len])
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<u8>>> {
        Ok(Box::new(Self::zeroed(len)?))
    }

    as_any!();
}
