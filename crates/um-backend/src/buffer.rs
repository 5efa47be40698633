//! The trait that a tensor framework programs against.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use crate::device::BufferDevice;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::host_memory;
use crate::memory::{BufferMemory, BufferMemoryMut, same_length};
use crate::transfer;

/// A buffer of elements, wherever they live. Object safe: frameworks hold a `Box<dyn Buffer<T>>`.
///
/// The contract, which the module `conformance` (a feature) checks:
///
/// - A new buffer holds zeros. Its length, its memory and the device of the memory stay the same, unless code that borrows them by
///   [`memory_mut`](Self::memory_mut) puts another buffer's memory in their place.
/// - Every call sees the effect of every earlier call on the buffer, and of every kernel that was launched on it, on any stream.
/// - Copies to host slices are done when the call returns. Copies from them, [`fill`](Self::fill), [`set_zero`](Self::set_zero) and
///   [`copy_from_buffer`](Self::copy_from_buffer) may be only enqueued; the source of a copy may be written or dropped at once.
/// - Lengths and ranges are checked before anything is touched: a call that returns
///   [`CudaError::LengthMismatch`](crate::CudaError::LengthMismatch) or
///   [`CudaError::RangeOutOfBounds`](crate::CudaError::RangeOutOfBounds) has changed nothing.
/// - Any two implementations can be copied from one to the other, on one device or on two.
/// - It can be sent to another thread and shared; writing takes `&mut`, so safe code cannot race the CPU with a kernel.
/// - Dropping it never frees memory under a running kernel and never waits for one.
///
/// To implement it, give [`memory`](Self::memory) and [`memory_mut`](Self::memory_mut): the copies, `fill` and `set_zero` have
/// default implementations over them. An implementation whose memory is [`BufferMemory::Opaque`] must give
/// [`copy_from_host_at`](Self::copy_from_host_at), [`copy_to_host_at`](Self::copy_to_host_at) and [`fill`](Self::fill) itself.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, CudaError, DType};
///
/// fn process(buffer: &mut dyn Buffer<f32>) -> Result<f32, CudaError> {
///     buffer.fill(0.5)?;
///     Ok(buffer.read_back()?.iter().sum())
/// }
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// assert_eq!(process(&mut backend.allocate_unified(8)?)?, 4.0);
/// assert_eq!(process(&mut backend.create_buffer(8, DType::F32)?)?, 4.0);
/// assert_eq!(process(&mut backend.create_host(8)?)?, 4.0);
/// # Ok::<(), CudaError>(())
/// ```
pub trait Buffer<T: Element>: fmt::Debug + Send + Sync {
    /// How many elements it has.
    fn len(&self) -> usize;

    /// Where it was made, and where [`clone_empty`](Self::clone_empty) makes others.
    fn device(&self) -> &BufferDevice;

    /// What is behind it: for kernels, and for copies to other implementations.
    fn memory(&self) -> BufferMemory<'_, T>;

    /// What is behind it, to be written.
    ///
    /// A buffer of the layer below that is lent here can be exchanged for another one (`std::mem::swap`). Then this buffer has the other
    /// one's elements and length: [`len`](Self::len), copies, fills, prefetches and advice all ask the memory that is there.
    /// [`device`](Self::device) goes on naming the device that the buffer was made on; the memory's own is in
    /// [`memory`](Self::memory).
    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T>;

    /// A new buffer of the same kind on the same device, with `len` zeros.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), or another failure to allocate.
    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>>;

    /// The implementation, to be downcast.
    fn as_any(&self) -> &dyn Any;

    /// The implementation, to be downcast.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Names the buffer, for traces (feature `profile`); else it goes by its type and length. An implementation without traces does
    /// nothing.
    fn set_name(&mut self, name: &str) {
        let _ = name;
    }

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For how many elements there is memory: at least [`len`](Self::len).
    fn capacity(&self) -> usize {
        self.len()
    }

    /// The type of its elements.
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    /// Copies all elements from the host.
    ///
    /// # Ordering
    /// After earlier work on the buffer. When it returns, `source` may be used again, though the copy may be only enqueued; later calls
    /// and launches come after it.
    ///
    /// # Errors
    /// [`CudaError::LengthMismatch`](crate::CudaError::LengthMismatch) unless `source` is as long as the buffer, and what CUDA
    /// reports.
    #[doc(alias = "cudaMemcpy")]
    fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        same_length("copy_from_host", self.len(), source.len())?;
        self.copy_from_host_at(0, source)
    }

    /// Copies all elements to the host.
    ///
    /// # Ordering
    /// After earlier writes of the buffer, for which it waits; `target` holds the elements when it returns.
    ///
    /// # Errors
    /// [`CudaError::LengthMismatch`](crate::CudaError::LengthMismatch) unless `target` is as long as the buffer, and what CUDA
    /// reports.
    #[doc(alias = "cudaMemcpy")]
    fn copy_to_host(&self, target: &mut [T]) -> Result<()> {
        same_length("copy_to_host", self.len(), target.len())?;
        self.copy_to_host_at(0, target)
    }

    /// Copies elements from the host to `offset` and on.
    ///
    /// # Ordering
    /// As for [`copy_from_host`](Self::copy_from_host).
    ///
    /// # Errors
    /// [`CudaError::RangeOutOfBounds`](crate::CudaError::RangeOutOfBounds), and what CUDA reports.
    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        self.memory_mut().copy_from_host_at(offset, source)
    }

    /// The elements, in new memory of the host.
    ///
    /// Who reads often copies into memory that is there already ([`copy_to_host`](Self::copy_to_host)): the first touch of new memory
    /// takes longer than the copy.
    ///
    /// # Ordering
    /// As for [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory) for the host's memory, and what CUDA reports.
    fn read_back(&self) -> Result<Vec<T>> {
        let mut elements = host_memory::zeroed(self.len())?;
        self.copy_to_host(&mut elements)?;
        Ok(elements.into_vec())
    }

    /// Copies elements from `offset` and on to the host.
    ///
    /// # Ordering
    /// As for [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`CudaError::RangeOutOfBounds`](crate::CudaError::RangeOutOfBounds), and what CUDA reports.
    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        self.memory().copy_to_host_at(offset, target)
    }

    /// Sets every element to `value`.
    ///
    /// # Ordering
    /// May be only enqueued; later calls and launches come after it.
    ///
    /// # Errors
    /// What CUDA reports.
    #[doc(alias = "cudaMemset")]
    fn fill(&mut self, value: T) -> Result<()> {
        self.memory_mut().fill(value)
    }

    /// Sets every element to zero.
    ///
    /// # Ordering
    /// May be only enqueued; later calls and launches come after it.
    ///
    /// # Errors
    /// What CUDA reports.
    #[doc(alias = "cudaMemset")]
    fn set_zero(&mut self) -> Result<()> {
        self.fill(bytemuck::Zeroable::zeroed())
    }

    /// Copies all elements of another buffer, of any implementation and on any device.
    ///
    /// # Ordering
    /// May be only enqueued; `source` may be written or dropped at once.
    ///
    /// # Errors
    /// [`CudaError::LengthMismatch`](crate::CudaError::LengthMismatch) unless the buffers are equally long, and what CUDA reports.
    #[doc(alias = "cudaMemcpy")]
    fn copy_from_buffer(&mut self, source: &dyn Buffer<T>) -> Result<()> {
        same_length("copy_from_buffer", self.len(), source.len())?;
        self.copy_from_buffer_at(0, source, 0..source.len())
    }

    /// Copies a range of another buffer to `offset` and on.
    ///
    /// # Ordering
    /// May be only enqueued; `source` may be written or dropped at once.
    ///
    /// # Errors
    /// [`CudaError::RangeOutOfBounds`](crate::CudaError::RangeOutOfBounds) for a range outside of its buffer, and what CUDA
    /// reports.
    fn copy_from_buffer_at(
        &mut self,
        offset: usize,
        source: &dyn Buffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        let target_range = transfer::ranges(offset, self.len(), &range, source.len())?;
        if transfer::direct(
            self.memory_mut(),
            target_range,
            source.memory(),
            range.clone(),
        )? {
            return Ok(());
        }
        transfer::staged(
            range,
            |from, stage| source.copy_to_host_at(from, stage),
            |at, stage| self.copy_from_host_at(offset + at, stage),
        )
    }
}
