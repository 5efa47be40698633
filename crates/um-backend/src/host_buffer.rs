//! Buffers in plain memory of the CPU.

use std::ops::Range;

use cuda_um::{Device, Placement, UnifiedBuffer, UnifiedOptions, range};

use crate::buffer::Buffer;
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::operations::check_capture;

/// A buffer in plain memory of the CPU. It needs no device and no CUDA runtime.
///
/// One that a backend makes on a device with pageable memory access is an argument of kernels as well
/// ([`CudaBackend::create`](crate::CudaBackend::create) with `BufferKind::Host`): a kernel uses the same memory. The methods that give slices then wait for
/// kernels that use the buffer. If such a kernel failed, the elements have unspecified values, and the next call of CUDA returns the error.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, HostBuffer};
///
/// let mut buffer = HostBuffer::<i32>::zeroed(4)?;
/// buffer.copy_from_host_at(1, &[7, 8])?;
/// buffer.as_slice_mut()[3] = 9;
/// assert_eq!(buffer.as_slice(), [0, 7, 8, 9]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct HostBuffer<T> {
    memory: Memory<T>,
}

#[derive(Debug)]
enum Memory<T> {
    Plain(Box<[T]>),
    /// System memory, mostly an adopted vector. Its uses by kernels are tracked.
    Adopted(Box<UnifiedBuffer<T>>),
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
            memory: Memory::Plain(elements.into_boxed_slice()),
        }
    }

    pub(crate) fn adopting(adopted: UnifiedBuffer<T>) -> Self {
        Self {
            memory: Memory::Adopted(Box::new(adopted)),
        }
    }

    /// Makes a buffer of `len` zeros that kernels of the device use, which has pageable memory access. It is aligned for all elements.
    pub(crate) fn on(device: &Device, len: usize) -> Result<Self> {
        let options = UnifiedOptions::default().placement(Placement::System);
        UnifiedBuffer::zeroed_with(device, len, options).map(Self::adopting)
    }

    /// Makes a buffer of a copy of these elements.
    ///
    /// # Errors
    /// [`OutOfMemory`](cuda_um::Error::OutOfMemory).
    pub fn from_slice(elements: &[T]) -> Result<Self> {
        let mut buffer = Self::zeroed(elements.len())?;
        buffer.as_slice_mut().copy_from_slice(elements);
        Ok(buffer)
    }

    /// The elements. Waits for kernels that write them.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match &self.memory {
            Memory::Plain(elements) => elements,
            Memory::Adopted(adopted) => adopted.system_slice(),
        }
    }

    /// The elements. Waits for kernels that use them.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Plain(elements) => elements,
            Memory::Adopted(adopted) => adopted.system_slice_mut(),
        }
    }

    /// The elements, without a copy if the buffer was made of a vector or by its length. Waits for kernels that use them.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        match self.memory {
            Memory::Plain(elements) => elements.into_vec(),
            Memory::Adopted(adopted) => adopted.into_system_vec(),
        }
    }
}

impl<T: Element> Buffer<T> for HostBuffer<T> {
    fn len(&self) -> usize {
        match &self.memory {
            Memory::Plain(elements) => elements.len(),
            Memory::Adopted(adopted) => adopted.len(),
        }
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        match &self.memory {
            Memory::Plain(elements) => BufferMemory::Host(elements),
            Memory::Adopted(adopted) => BufferMemory::Cuda(adopted.as_view()),
        }
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        match &mut self.memory {
            Memory::Plain(elements) => BufferMemoryMut::Host(elements),
            Memory::Adopted(adopted) => BufferMemoryMut::Cuda(adopted.as_view_mut()),
        }
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(Box::new(match &self.memory {
            Memory::Plain(_) => Self::zeroed(len)?,
            Memory::Adopted(adopted) => Self::adopting(adopted.zeroed_like(len)?),
        }))
    }

    fn into_parts(self: Box<Self>, parts: &[Range<usize>]) -> Result<Vec<Box<dyn Buffer<T>>>> {
        let part = |part| Box::new(part) as Box<dyn Buffer<T>>;
        match self.memory {
            Memory::Plain(elements) => {
                let copy = |range: &Range<usize>| {
                    let range = range::check(range.clone(), elements.len())?;
                    Self::from_slice(&elements[range]).map(part)
                };
                parts.iter().map(copy).collect()
            }
            Memory::Adopted(adopted) => {
                let parts = UnifiedBuffer::into_parts(*adopted, parts)?;
                Ok(parts.map(Self::adopting).map(part).collect())
            }
        }
    }

    // By the CPU, where the elements belong, also if a kernel could do it.
    fn fill_range(&mut self, part: Range<usize>, value: T) -> Result<()> {
        let part = range::check(part, self.len())?;
        check_capture()?;
        self.as_slice_mut()[part].fill(value);
        Ok(())
    }

    fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<()> {
        let from = range::check(from, self.len())?;
        range::check_at(to, from.len(), self.len())?;
        check_capture()?;
        self.as_slice_mut().copy_within(from, to);
        Ok(())
    }

    as_any!();
}
