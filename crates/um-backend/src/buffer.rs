//! The trait for tensor frameworks.

use std::any::Any;
use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;

use cuda_um::range::same_length;
use cuda_um::{
    Advice, Device, HostMut, HostRef, Location, Stream, constant, host_vec, managed::HintOutcome,
};

use crate::dtype::{DType, Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::{operations, transfer};

/// The buffer itself, for downcasts.
macro_rules! as_any {
    () => {
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }

        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    };
}

#[doc = include_str!("buffer.md")]
pub trait Buffer<T: Element>: fmt::Debug + Send + Sync {
    /// The number of elements.
    fn len(&self) -> usize;

    /// The device of the memory, on which [`clone_empty`](Self::clone_empty) allocates; `None` for memory of the host that belongs to no device.
    fn device(&self) -> Option<&Device>;

    /// The memory, for kernels and for copies to other implementations.
    fn memory(&self) -> BufferMemory<'_, T>;

    /// The memory, to be written.
    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T>;

    /// Allocates a buffer of `len` zeros of the same kind on the same device.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), or another failure to allocate.
    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>>;

    /// The buffer as a value that can be downcast to its implementation.
    fn as_any(&self) -> &dyn Any;

    /// The buffer as a value that can be downcast to its implementation.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Names the buffer in traces (feature `profile`). The default implementation does nothing.
    fn set_name(&mut self, name: &str) {
        let _ = name;
    }

    /// The name that was set, if the implementation keeps it.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Whether the buffer has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of elements that fit into the memory: at least [`len`](Self::len).
    fn capacity(&self) -> usize {
        self.len()
    }

    /// The type of the elements.
    fn dtype(&self) -> DType {
        dtype_of::<T>()
    }

    /// The size of all elements, in bytes.
    fn size_bytes(&self) -> usize {
        self.len().saturating_mul(size_of::<T>())
    }

    /// Copies all elements from the host.
    ///
    /// # Ordering
    /// After earlier work on the buffer. The copy may be only enqueued when this returns, but the caller may write or drop `source`. Later
    /// calls and launches are ordered after it.
    ///
    /// # Errors
    /// [`LengthMismatch`](cuda_um::Error::LengthMismatch) unless `source` is as long as the buffer, and errors of CUDA.
    #[doc(alias = "cudaMemcpy")]
    fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        match self.memory_mut() {
            BufferMemoryMut::Cuda(mut view) => view.copy_from_host(source),
            _ => {
                same_length("copy_from_host", self.len(), source.len())?;
                self.copy_from_host_at(0, source)
            }
        }
    }

    /// Copies all elements to the host.
    ///
    /// # Ordering
    /// Waits for earlier writes of the buffer. `target` holds the elements when this returns.
    ///
    /// # Errors
    /// [`LengthMismatch`](cuda_um::Error::LengthMismatch) unless `target` is as long as the buffer, and errors of CUDA.
    #[doc(alias = "cudaMemcpy")]
    fn copy_to_host(&self, target: &mut [T]) -> Result<()> {
        match self.memory() {
            BufferMemory::Cuda(view) => view.copy_to_host(target),
            _ => {
                same_length("copy_to_host", self.len(), target.len())?;
                self.copy_to_host_at(0, target)
            }
        }
    }

    /// Copies elements from the host to the range that starts at `offset`.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        operations::put(self.memory_mut(), offset, source)
    }

    /// Copies all elements to new memory of the host. To read repeatedly, reuse a destination with [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory) for host memory, and errors of CUDA.
    fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = host_vec::zeroed("to_vec", self.len())?;
        self.copy_to_host(&mut elements)?;
        Ok(elements)
    }

    /// Copies elements from the range that starts at `offset` to the host.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        operations::get(self.memory(), offset, target)
    }

    /// Returns one element: a result, a loss, a flag.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    #[doc(alias = "item")]
    fn read_one(&self, index: usize) -> Result<T> {
        let mut element = [T::zeroed()];
        self.copy_to_host_at(index, &mut element)?;
        Ok(element[0])
    }

    /// Replaces one element.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn write_one(&mut self, index: usize, value: T) -> Result<()> {
        self.copy_from_host_at(index, &[value])
    }

    /// Sets every element to `value`.
    ///
    /// # Errors
    /// Errors of CUDA. [`CudaError::Capture`](crate::CudaError::Capture) in a capture, whose launches would all fill with this value:
    /// [`ViewMut::fill`](cuda_um::ViewMut::fill) takes a [`constant`], and a kernel that fills takes a named scalar.
    #[doc(alias = "cudaMemset")]
    fn fill(&mut self, value: T) -> Result<()> {
        self.fill_range(0..self.len(), value)
    }

    /// Sets every element to zero.
    ///
    /// # Errors
    /// Errors of CUDA.
    fn set_zero(&mut self) -> Result<()> {
        let zero = bytemuck::Zeroable::zeroed();
        match self.memory_mut() {
            // A capture refuses a fill with a plain value.
            BufferMemoryMut::Cuda(mut view) if cuda_um::graph::is_capturing() => {
                view.fill(constant(zero))
            }
            _ => self.fill(zero),
        }
    }

    /// Copies all elements of another buffer, of any implementation and on any device.
    ///
    /// # Errors
    /// [`LengthMismatch`](cuda_um::Error::LengthMismatch) unless the buffers have the same length, and errors of CUDA.
    #[doc(alias = "cudaMemcpy")]
    fn copy_from_buffer(&mut self, source: &dyn Buffer<T>) -> Result<()> {
        same_length("copy_from_buffer", self.len(), source.len())?;
        self.copy_from_buffer_at(0, source, 0..source.len())
    }

    /// Copies a range of another buffer to the range that starts at `offset`.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn copy_from_buffer_at(
        &mut self,
        offset: usize,
        source: &dyn Buffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        transfer::copy(self, offset, source, range, None)
    }

    /// Allocates a copy of the buffer: the same kind, device, elements and name.
    ///
    /// # Errors
    /// As for [`clone_empty`](Self::clone_empty), and errors of CUDA.
    fn try_clone(&self) -> Result<Box<dyn Buffer<T>>> {
        let mut clone = self.clone_empty(self.len())?;
        if let Some(name) = self.name() {
            clone.set_name(name);
        }
        transfer::copy(&mut *clone, 0, self, 0..self.len(), None)?;
        Ok(clone)
    }

    /// Makes a buffer of each of these ranges of elements, which are in order and do not overlap. Those of this crate's buffers of CUDA memory
    /// share the allocation ([`UnifiedBuffer::into_parts`](crate::UnifiedBuffer::into_parts)), and are not ordered after each other. Others are copies.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and as for [`try_clone`](Self::try_clone). The buffer is then dropped.
    fn into_parts(self: Box<Self>, parts: &[Range<usize>]) -> Result<Vec<Box<dyn Buffer<T>>>> {
        let copy = |part: &Range<usize>| {
            let mut copy = self.clone_empty(part.len())?;
            transfer::copy(&mut *copy, 0, &*self, part.clone(), None)?;
            Ok(copy)
        };
        parts.iter().map(copy).collect()
    }

    /// The elements, for the host to read: borrowed if the host can access the memory, otherwise a copy.
    ///
    /// # Ordering
    /// Waits for earlier writes of the buffer.
    ///
    /// # Errors
    /// Errors of CUDA; [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory) for the copy.
    fn host(&self) -> Result<HostRef<'_, T>> {
        operations::host(self)
    }

    /// The elements, for the host to read and write: borrowed if the host can access the memory, otherwise a copy that
    /// [`HostMut::close`] or the drop writes back.
    ///
    /// # Ordering
    /// Waits for earlier work on the buffer.
    ///
    /// # Errors
    /// As for [`host`](Self::host).
    fn host_mut(&mut self) -> Result<HostMut<'_, T>> {
        operations::host_mut(self)
    }

    /// Sets every element of a range to `value`.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn fill_range(&mut self, range: Range<usize>, value: T) -> Result<()> {
        operations::fill(self, range, value, None)
    }

    /// Copies a range to the range of the same buffer that starts at `to`. The two may overlap.
    ///
    /// # Errors
    /// As for [`fill_range`](Self::fill_range).
    fn copy_within(&mut self, range: Range<usize>, to: usize) -> Result<()> {
        operations::copy_within(self, range, to)
    }

    /// Gives advice for all elements; the range is extended to whole pages.
    ///
    /// # Errors
    /// As for [`prefetch_range`](Self::prefetch_range).
    #[doc(alias = "cudaMemAdvise")]
    fn advise(&self, advice: Advice) -> Result<HintOutcome> {
        self.advise_range(0..self.len(), advice)
    }

    /// Migrates a range to a location, on the library's stream of the device.
    ///
    /// # Errors
    /// As for [`prefetch_range_on`](Buffer::prefetch_range_on), as is the order.
    fn prefetch_range(&self, range: Range<usize>, location: Location) -> Result<HintOutcome> {
        operations::prefetch(self, range, location, None)
    }

    /// Migrates a range to a location, on a stream.
    ///
    /// # Ordering
    /// Enqueued on `stream`, after earlier work on the buffer.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and as for [`UnifiedBuffer::prefetch_on`](crate::UnifiedBuffer::prefetch_on).
    /// Memory that cannot migrate is not an error: the outcome is [`HintOutcome::NotApplied`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    fn prefetch_range_on(
        &self,
        range: Range<usize>,
        location: Location,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        operations::prefetch(self, range, location, Some(stream))
    }

    /// Gives advice for a range, which is extended to whole pages.
    ///
    /// # Errors
    /// As for [`prefetch_range`](Self::prefetch_range).
    #[doc(alias = "cudaMemAdvise")]
    fn advise_range(&self, range: Range<usize>, advice: Advice) -> Result<HintOutcome> {
        operations::advise(self, range, advice)
    }

    /// Reads a range from a file, a socket or another reader: bytes in the order of this machine.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds); [`CudaError::Io`](crate::CudaError::Io) if the reader fails or ends early,
    /// after the first part of the range was written; and errors of CUDA.
    fn read_from(&mut self, source: &mut dyn Read, range: Range<usize>) -> Result<()> {
        operations::read_from(self, source, range)
    }

    /// Writes a range to a file, a socket or another writer: bytes in the order of this machine.
    ///
    /// # Errors
    /// As for [`read_from`](Self::read_from).
    fn write_to(&self, target: &mut dyn Write, range: Range<usize>) -> Result<()> {
        operations::write_to(self, target, range)
    }

    /// Copies all elements from the host on a stream, through pinned memory of a pool. Memory of the host, and opaque memory, is written at once.
    ///
    /// # Ordering
    /// Enqueued on `stream` after earlier work on the buffer. The caller may write or drop `source` when this returns.
    ///
    /// # Errors
    /// As for [`copy_from_host`](Self::copy_from_host); [`RuntimeMismatch`](cuda_um::Error::RuntimeMismatch) or
    /// [`DeviceMismatch`](cuda_um::Error::DeviceMismatch) for a stream that cannot reach the memory.
    fn copy_from_host_on(&mut self, source: &[T], stream: &Stream) -> Result<()> {
        operations::copy_from_host_on(self, source, stream)
    }

    /// Copies all elements to the host on a stream of the caller's choice, through pinned memory of a pool.
    ///
    /// # Ordering
    /// Enqueued on `stream` after earlier writes of the buffer. Waits for the copy.
    ///
    /// # Errors
    /// As for [`copy_from_host_on`](Self::copy_from_host_on).
    fn copy_to_host_on(&self, target: &mut [T], stream: &Stream) -> Result<()> {
        operations::copy_to_host_on(self, target, stream)
    }

    /// Copies all elements of another buffer on a stream of the caller's choice.
    ///
    /// # Ordering
    /// Enqueued on `stream` after earlier work on both buffers; copies from and to memory of the host, and opaque memory, do not use it.
    ///
    /// # Errors
    /// As for [`copy_from_buffer`](Self::copy_from_buffer) and [`copy_from_host_on`](Self::copy_from_host_on).
    fn copy_from_buffer_on(&mut self, source: &dyn Buffer<T>, stream: &Stream) -> Result<()> {
        same_length("copy_from_buffer_on", self.len(), source.len())?;
        transfer::copy(self, 0, source, 0..source.len(), Some(stream))
    }

    /// Sets every element to `value` on a stream of the caller's choice.
    ///
    /// # Ordering
    /// Enqueued on `stream` after earlier work on the buffer. Memory of the host, and opaque memory, is written at once.
    ///
    /// # Errors
    /// As for [`fill`](Self::fill) and [`copy_from_host_on`](Self::copy_from_host_on).
    fn fill_on(&mut self, value: T, stream: &Stream) -> Result<()> {
        operations::fill(self, 0..self.len(), value, Some(stream))
    }
}

impl<T: Element> dyn Buffer<T> + '_ {
    /// Migrates all elements to a location, such as a device, on the library's stream of the buffer's device.
    ///
    /// # Errors
    /// As for [`prefetch_range_on`](Buffer::prefetch_range_on), as is the order.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        self.prefetch_range(0..self.len(), location.into())
    }
}
