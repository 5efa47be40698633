//! Buffers in plain memory of the CPU.

use std::any::Any;

use cuda_um::Device;

use crate::buffer::Buffer;
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// A buffer in plain memory of the CPU. It needs no device and no CUDA runtime.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, HostBuffer};
///
/// let mut buffer = HostBuffer::<i32>::zeroed(4)?;
/// buffer.copy_from_host_at(1, &[7, 8])?;
/// assert_eq!(buffer.as_slice(), [0, 7, 8, 0]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HostBuffer<T> {
    elements: Box<[T]>,
}

impl<T: Element> HostBuffer<T> {
    /// Allocates a buffer of `len` zeros.
    ///
    /// # Errors
    /// [`TooLarge`](cuda_um::Error::TooLarge), [`OutOfMemory`](cuda_um::Error::OutOfMemory).
    pub fn zeroed(len: usize) -> Result<Self> {
        let elements = cuda_um::host_vec::zeroed("HostBuffer::zeroed", len)?;
        Ok(Self::from_vec(elements))
    }

    /// Makes a buffer of these elements.
    #[must_use]
    pub fn from_vec(elements: Vec<T>) -> Self {
        const { dtype_of::<T>() };
        Self {
            elements: elements.into_boxed_slice(),
        }
    }

    /// Makes a buffer of a copy of these elements.
    ///
    /// # Errors
    /// [`OutOfMemory`](cuda_um::Error::OutOfMemory).
    pub fn from_slice(elements: &[T]) -> Result<Self> {
        let mut buffer = Self::zeroed(elements.len())?;
        buffer.elements.copy_from_slice(elements);
        Ok(buffer)
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.elements
    }

    /// The elements.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// The elements, without a copy.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.elements.into_vec()
    }
}

impl<T: Element> Buffer<T> for HostBuffer<T> {
    fn len(&self) -> usize {
        self.elements.len()
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Host(&self.elements)
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Host(&mut self.elements)
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(Box::new(Self::zeroed(len)?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
