//! A buffer with one pointer for the CPU and the GPU.

use std::any::Any;
use std::sync::Arc;

use cuda_um::{
    Advice, HintOutcome, HostMut, HostRef, Location, Pool, Stream, UnifiedOptions, resource::Placed,
};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice};
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// A buffer of unified memory: managed memory; or mapped pinned memory behind the same calls, on a GPU whose managed memory is poor, or
/// if that is faster for the stated access pattern.
///
/// [`placement`](Self::placement) tells which memory it has, and why.
///
/// # Examples
/// ```
/// use um_backend::{Advice, CudaBackend, CudaBackendConfig, Location};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let stream = backend.device().stream();
/// let mut buffer = backend.allocate_unified::<f32>(1024)?;
/// buffer.host_mut()?.fill(1.5);
/// buffer.advise(Advice::SetPreferredLocation(Location::Device(0)))?;
/// buffer.prefetch_on(Location::Device(0), stream)?;
/// // … launch kernels …
/// buffer.prefetch_on(Location::Host, stream)?;
/// assert_eq!(buffer.host()?[1023], 1.5);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct UnifiedBuffer<T> {
    memory: cuda_um::UnifiedBuffer<T>,
    device: Arc<CudaDevice>,
    place: BufferDevice,
    origin: Origin,
}

/// The source of a buffer's memory. [`Buffer::clone_empty`] allocates from the same source.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Own(UnifiedOptions),
    Pool(Pool),
}

impl<T: Element> UnifiedBuffer<T> {
    /// Allocates a buffer of `len` zeros.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also for more than the device has free; and errors of CUDA.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn zeroed(device: Arc<CudaDevice>, len: usize) -> Result<Self> {
        Self::zeroed_with(device, len, UnifiedOptions::default())
    }

    /// Allocates a buffer of `len` zeros with options: its access pattern, or the memory that it must have.
    ///
    /// On a device whose managed memory is poor ([`CudaDevice::unified_memory_obstacle`]) it has mapped memory, unless the options
    /// request [`Placement::Managed`](cuda_um::Placement::Managed).
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use um_backend::{CudaDevice, UnifiedBuffer, cuda_um::{AccessPattern, UnifiedOptions}};
    ///
    /// let device = Arc::new(CudaDevice::new(0)?);
    /// let options = UnifiedOptions::default().pattern(AccessPattern::ReadMostly);
    /// let weights = UnifiedBuffer::<f32>::zeroed_with(device, 1 << 20, options)?;
    /// println!("{}", weights.placement()); // managed memory (ReadMostly), with the advice SetReadMostly
    /// assert_eq!(weights.placement().pattern, AccessPattern::ReadMostly);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed); [`NotSupported`](cuda_um::Error::NotSupported) for memory that the device does not have.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn zeroed_with(
        device: Arc<CudaDevice>,
        len: usize,
        options: UnifiedOptions,
    ) -> Result<Self> {
        Self::allocate(device, len, Origin::Own(options))
    }

    /// Allocates a copy of a slice, which may be used again when this returns.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: Arc<CudaDevice>, elements: &[T]) -> Result<Self> {
        let memory = cuda_um::UnifiedBuffer::from_slice(device.as_cuda_um(), elements)?;
        Ok(Self::of(
            memory,
            device,
            Origin::Own(UnifiedOptions::default()),
        ))
    }

    /// Allocates a buffer of `len` elements with arbitrary contents, for a kernel or a copy that writes all of them. From a warm pool this
    /// makes no CUDA call.
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[doc(alias = "empty")]
    #[track_caller]
    pub unsafe fn uninit(device: Arc<CudaDevice>, len: usize) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::allocate_uninit(device, len, Origin::Own(UnifiedOptions::default())) }
    }

    /// Makes a buffer of one of the safe layer below: memory of another library ([`from_foreign`](cuda_um::UnifiedBuffer::from_foreign)), or of a
    /// memory resource. [`Buffer::clone_empty`] allocates as [`zeroed`](Self::zeroed) does.
    ///
    /// # Errors
    /// [`DeviceMismatch`](cuda_um::Error::DeviceMismatch) if the memory belongs to another device. The buffer is then dropped.
    pub fn from_cuda_um(
        device: Arc<CudaDevice>,
        memory: cuda_um::UnifiedBuffer<T>,
    ) -> Result<Self> {
        device.check_owns(memory.device())?;
        Ok(Self::of(
            memory,
            device,
            Origin::Own(UnifiedOptions::default()),
        ))
    }

    #[track_caller]
    pub(crate) fn allocate(device: Arc<CudaDevice>, len: usize, origin: Origin) -> Result<Self> {
        let memory = match &origin {
            Origin::Pool(pool) => cuda_um::UnifiedBuffer::zeroed_in(pool, len)?,
            Origin::Own(options) => {
                cuda_um::UnifiedBuffer::zeroed_with(device.as_cuda_um(), len, *options)?
            }
        };
        Ok(Self::of(memory, device, origin))
    }

    /// # Safety
    /// As for [`uninit`](Self::uninit).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[track_caller]
    pub(crate) unsafe fn allocate_uninit(
        device: Arc<CudaDevice>,
        len: usize,
        origin: Origin,
    ) -> Result<Self> {
        let memory = match &origin {
            Origin::Pool(pool) => cuda_um::UnifiedBuffer::uninit_in(pool, len)?,
            Origin::Own(options) => {
                cuda_um::UnifiedBuffer::uninit(device.as_cuda_um(), len, *options)?
            }
        };
        // SAFETY: guaranteed by the caller.
        Ok(Self::of(unsafe { memory.assume_init() }, device, origin))
    }

    fn of(memory: cuda_um::UnifiedBuffer<T>, device: Arc<CudaDevice>, origin: Origin) -> Self {
        const { dtype_of::<T>() };
        Self {
            memory,
            place: BufferDevice::Cuda(Arc::clone(&device)),
            device,
            origin,
        }
    }

    /// The memory of the buffer, its access pattern and advice, and the reason for that memory.
    #[must_use]
    pub fn placement(&self) -> Placed {
        self.memory.placement()
    }

    /// The elements, for the host to read. Waits only for the work that writes or moves this buffer.
    ///
    /// On a device without concurrent managed access, launches fail with [`Busy`](cuda_um::Error::Busy), or wait, while the guard lives
    /// ([`CudaBackendConfig::non_concurrent_access`](crate::CudaBackendConfig::non_concurrent_access)).
    ///
    /// # Errors
    /// Errors of CUDA, also of the work that it waits for.
    pub fn host(&self) -> Result<HostRef<'_, T>> {
        Ok(self.memory.host()?)
    }

    /// The elements, for the host to write. Waits only for the work that uses this buffer.
    ///
    /// On a device without concurrent managed access, launches fail with [`Busy`](cuda_um::Error::Busy), or wait, while the guard lives
    /// ([`CudaBackendConfig::non_concurrent_access`](crate::CudaBackendConfig::non_concurrent_access)).
    ///
    /// # Errors
    /// Errors of CUDA, also of the work that it waits for.
    pub fn host_mut(&mut self) -> Result<HostMut<'_, T>> {
        Ok(self.memory.host_mut()?)
    }

    /// The address of the buffer, for the CPU and the GPU.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.memory.as_ptr()
    }

    /// The address of the buffer, for the CPU and the GPU.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.memory.as_mut_ptr()
    }

    /// Migrates the buffer to a location, on the library's stream of the device.
    ///
    /// # Ordering
    /// As for [`prefetch_on`](Self::prefetch_on).
    ///
    /// # Errors
    /// As for [`prefetch_on`](Self::prefetch_on).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        Ok(self.memory.prefetch(location)?)
    }

    /// Migrates the buffer to a location, on a stream.
    ///
    /// # Ordering
    /// Enqueued on `stream` after earlier work on the buffer. Later work on the buffer, on any stream, is ordered after it.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice), [`Busy`](cuda_um::Error::Busy),
    /// [`RuntimeMismatch`](cuda_um::Error::RuntimeMismatch), and errors of CUDA. Memory that cannot migrate is not an error:
    /// the outcome is [`HintOutcome::NotApplied`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        Ok(self.memory.prefetch_on(location, stream)?)
    }

    /// Gives advice for the whole buffer.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice), and errors of CUDA. Memory that takes no advice is not an error:
    /// the outcome is [`HintOutcome::NotApplied`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<HintOutcome> {
        Ok(self.memory.advise(advice)?)
    }

    /// The buffer of the safe layer below, for ranges, range attributes and residency.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::UnifiedBuffer<T> {
        &self.memory
    }

    /// The buffer of the safe layer below. It can be exchanged for a buffer of another length and device (`std::mem::swap`): every call then
    /// uses the new memory, and [`Buffer::device`] still is the device of the allocation.
    pub fn as_cuda_um_mut(&mut self) -> &mut cuda_um::UnifiedBuffer<T> {
        &mut self.memory
    }

    /// Waits for the buffer's work, frees it, and returns the error that a drop would ignore.
    ///
    /// # Errors
    /// Errors of CUDA, also of earlier work.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        Ok(self.memory.close()?)
    }
}

impl<T: Element> Buffer<T> for UnifiedBuffer<T> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn device(&self) -> &BufferDevice {
        &self.place
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Cuda(self.memory.as_view())
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Cuda(self.memory.as_view_mut())
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let device = Arc::clone(&self.device);
        Ok(Box::new(Self::allocate(device, len, self.origin.clone())?))
    }

    fn set_name(&mut self, name: &str) {
        self.memory.set_name(name);
    }

    fn name(&self) -> Option<&str> {
        self.memory.name()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
