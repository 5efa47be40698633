//! The trait for tensor frameworks.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use cuda_um::host_vec;
use cuda_um::range::same_length;

use crate::device::BufferDevice;
use crate::dtype::{DType, Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::transfer;

/// A buffer of elements in any kind of memory. The trait is object safe: frameworks hold a `Box<dyn Buffer<T>>`.
///
/// The contract, which the module `conformance` (feature `conformance`) checks:
///
/// - A new buffer holds zeros. Its length, its memory and the device of the memory stay the same, unless the caller exchanges the
///   memory that [`memory_mut`](Self::memory_mut) lends.
/// - Every call sees the effect of every earlier call on the buffer, and of every kernel that was launched on it, on any stream.
/// - Copies to host slices are done when the call returns. Copies from them, [`fill`](Self::fill), [`set_zero`](Self::set_zero) and
///   [`copy_from_buffer`](Self::copy_from_buffer) may be only enqueued; the caller may write or drop the source of a copy at once.
/// - Lengths and ranges are checked first: a call that returns [`LengthMismatch`](cuda_um::Error::LengthMismatch) or
///   [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds) has changed nothing.
/// - A buffer can be copied to a buffer of any other implementation, on the same device or on another one.
/// - A buffer can be sent to another thread and shared. Writes take `&mut`, so safe code cannot cause a data race between the CPU and
///   a kernel.
/// - A drop never frees memory that a kernel uses, and never waits for a kernel.
///
/// An implementation must have [`memory`](Self::memory) and [`memory_mut`](Self::memory_mut), which the default copies, `fill` and
/// `set_zero` use. If its memory is [`BufferMemory::Opaque`], it must also have
/// [`copy_from_host_at`](Self::copy_from_host_at), [`copy_to_host_at`](Self::copy_to_host_at) and [`fill`](Self::fill).
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError};
///
/// fn process(buffer: &mut dyn Buffer<f32>) -> Result<f32, CudaError> {
///     buffer.fill(0.5)?;
///     Ok(buffer.read_back()?.iter().sum())
/// }
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// for kind in BufferKind::ALL {
///     assert_eq!(process(&mut *backend.create(kind, 8)?)?, 4.0);
/// }
/// # Ok::<(), CudaError>(())
/// ```
pub trait Buffer<T: Element>: fmt::Debug + Send + Sync {
    /// The number of elements.
    fn len(&self) -> usize;

    /// The place where the buffer was allocated, and where [`clone_empty`](Self::clone_empty) allocates.
    fn device(&self) -> &BufferDevice;

    /// The memory, for kernels and for copies to other implementations.
    fn memory(&self) -> BufferMemory<'_, T>;

    /// The memory, to be written.
    ///
    /// The caller can exchange a buffer of `cuda_um` that is lent here for another one (`std::mem::swap`). This buffer then has the
    /// elements and the length of the other one, and copies, fills, prefetches and advice use the new memory. [`device`](Self::device)
    /// still is the device on which the buffer was allocated.
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

    /// Names the buffer in traces (feature `profile`). Without a name, a trace shows its type and length. The default implementation does
    /// nothing.
    fn set_name(&mut self, name: &str) {
        let _ = name;
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
        same_length("copy_from_host", self.len(), source.len())?;
        self.copy_from_host_at(0, source)
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
        same_length("copy_to_host", self.len(), target.len())?;
        self.copy_to_host_at(0, target)
    }

    /// Copies elements from the host to the range that starts at `offset`.
    ///
    /// # Ordering
    /// As for [`copy_from_host`](Self::copy_from_host).
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        self.memory_mut().copy_from_host_at(offset, source)
    }

    /// Copies all elements to new memory of the host.
    ///
    /// To read repeatedly, reuse a destination with [`copy_to_host`](Self::copy_to_host): the first access to new memory takes longer
    /// than the copy.
    ///
    /// # Ordering
    /// As for [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory) for host memory, and errors of CUDA.
    fn read_back(&self) -> Result<Vec<T>> {
        let mut elements = host_vec::zeroed("read_back", self.len())?;
        self.copy_to_host(&mut elements)?;
        Ok(elements)
    }

    /// Copies elements from the range that starts at `offset` to the host.
    ///
    /// # Ordering
    /// As for [`copy_to_host`](Self::copy_to_host).
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        self.memory().copy_to_host_at(offset, target)
    }

    /// Returns one element: a result, a loss, a flag.
    ///
    /// # Ordering
    /// As for [`copy_to_host`](Self::copy_to_host).
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
    /// # Ordering
    /// As for [`copy_from_host`](Self::copy_from_host).
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
    fn write_one(&mut self, index: usize, value: T) -> Result<()> {
        self.copy_from_host_at(index, &[value])
    }

    /// Sets every element to `value`.
    ///
    /// # Ordering
    /// May be only enqueued when this returns. Later calls and launches are ordered after it.
    ///
    /// # Errors
    /// Errors of CUDA.
    #[doc(alias = "cudaMemset")]
    fn fill(&mut self, value: T) -> Result<()> {
        self.memory_mut().fill(value)
    }

    /// Sets every element to zero.
    ///
    /// # Ordering
    /// May be only enqueued when this returns. Later calls and launches are ordered after it.
    ///
    /// # Errors
    /// Errors of CUDA.
    #[doc(alias = "cudaMemset")]
    fn set_zero(&mut self) -> Result<()> {
        self.fill(bytemuck::Zeroable::zeroed())
    }

    /// Copies all elements of another buffer, of any implementation and on any device.
    ///
    /// # Ordering
    /// May be only enqueued when this returns, but the caller may write or drop `source`.
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
    /// # Ordering
    /// May be only enqueued when this returns, but the caller may write or drop `source`.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
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
