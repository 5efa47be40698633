//! One pointer for the CPU and the GPU.

use std::any::Any;
use std::sync::Arc;

use cuda_um::{HostMut, HostRef, Location, Placed, UnifiedOptions, UnifiedPool};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice, checked_ordinal};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::placement::{MemoryAdvice, MemoryPlacement, Placement};

/// A buffer of unified memory: managed memory; or mapped pinned memory behind the same calls, on a GPU where managed memory is poor or
/// where that is faster for the pattern that was stated.
///
/// [`placed`](Self::placed) says which, and why.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, MemoryAdvice};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let mut buffer = backend.allocate_unified::<f32>(1024)?;
/// buffer.as_slice_mut()?.fill(1.5);
/// buffer.set_memory_advice(MemoryAdvice::SetPreferredLocation, Some(0))?;
/// buffer.prefetch_to_device(Some(0))?;
/// // … launch kernels …
/// buffer.prefetch_to_host()?;
/// assert_eq!(buffer.as_slice()?[1023], 1.5);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct UnifiedBuffer<T> {
    memory: cuda_um::UnifiedBuffer<T>,
    device: Arc<CudaDevice>,
    place: BufferDevice,
    origin: Origin,
}

/// Where a buffer's memory came from; that of [`Buffer::clone_empty`] comes from there too.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Own(UnifiedOptions),
    Pool(UnifiedPool),
}

impl Origin {
    /// Why a buffer of this origin has mapped memory though nobody asked for it. Who asks for managed memory gets it, poor or not.
    fn fallback(&self, device: &CudaDevice) -> Option<String> {
        match *self {
            Self::Own(options) if options == options.placement(MemoryPlacement::Auto) => {
                device.unified_memory_obstacle()
            }
            _ => None,
        }
    }
}

/// What memory a [`UnifiedBuffer`] really has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnifiedBacking {
    /// Managed memory (`cudaMallocManaged`).
    Managed,
    /// Mapped pinned memory, since managed memory is poor on this device.
    PinnedFallback {
        /// Why.
        reason: String,
    },
    /// Mapped pinned memory, as it was asked for, or as the pattern and the machine's costs speak for.
    Mapped {
        /// Why.
        reason: String,
    },
}

impl<T: Element> UnifiedBuffer<T> {
    /// A buffer of `len` zeros; `dtype` must be that of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch);
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also for more than the device has free; and what CUDA reports.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn new(device: Arc<CudaDevice>, len: usize, dtype: DType) -> Result<Self> {
        Self::with_options(device, len, dtype, UnifiedOptions::default())
    }

    /// A buffer of `len` zeros, with options: how it will be used, or what memory it is to have; `dtype` must be that of `T`.
    ///
    /// Where managed memory is poor ([`CudaDevice::unified_memory_obstacle`]) it has mapped memory, unless
    /// [`MemoryPlacement::Managed`] is asked for.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use um_backend::{AccessPattern, CudaDevice, DType, UnifiedBuffer, UnifiedOptions};
    ///
    /// let device = Arc::new(CudaDevice::new(0)?);
    /// let options = UnifiedOptions::default().pattern(AccessPattern::ReadMostly);
    /// let weights = UnifiedBuffer::<f32>::with_options(device, 1 << 20, DType::F32, options)?;
    /// println!("{}", weights.placed()); // managed memory (ReadMostly), with the advice SetReadMostly
    /// assert_eq!(weights.placed().pattern, AccessPattern::ReadMostly);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`CudaError::NotSupported`](crate::CudaError::NotSupported) for memory that the device does not have.
    #[track_caller]
    pub fn with_options(
        device: Arc<CudaDevice>,
        len: usize,
        dtype: DType,
        options: UnifiedOptions,
    ) -> Result<Self> {
        dtype.check::<T>()?;
        Self::allocate(device, len, Origin::Own(options))
    }

    #[track_caller]
    pub(crate) fn allocate(device: Arc<CudaDevice>, len: usize, origin: Origin) -> Result<Self> {
        let memory = match &origin {
            Origin::Pool(pool) => pool.zeroed(len)?,
            Origin::Own(options) => {
                let options = match origin.fallback(&device) {
                    Some(_) => options.placement(MemoryPlacement::Mapped),
                    None => *options,
                };
                cuda_um::UnifiedBuffer::zeroed_with(device.as_cuda_um(), len, options)?
            }
        };
        Ok(Self {
            memory,
            place: BufferDevice::Cuda(Arc::clone(&device)),
            device,
            origin,
        })
    }

    /// What memory it has, for which pattern, with which advice, and why.
    #[must_use]
    pub fn placed(&self) -> Placed {
        let mut placed = self.memory.placement();
        if let Some(reason) = self.fallback() {
            placed.reason = format!("since {reason}");
        }
        placed
    }

    /// What memory it really has, and, for mapped memory, why.
    #[must_use]
    pub fn backing(&self) -> UnifiedBacking {
        if let Some(reason) = self.fallback() {
            return UnifiedBacking::PinnedFallback { reason };
        }
        match self.memory.placement() {
            placed if placed.placement == MemoryPlacement::Mapped => UnifiedBacking::Mapped {
                reason: placed.reason,
            },
            _ => UnifiedBacking::Managed,
        }
    }

    /// Whether it is mapped memory because managed memory is poor on this device.
    #[must_use]
    pub fn is_fallback(&self) -> bool {
        self.fallback().is_some()
    }

    /// Why it has mapped memory though nobody asked for it.
    fn fallback(&self) -> Option<String> {
        let is_mapped = !is_managed(&self.memory);
        self.origin.fallback(&self.device).filter(|_| is_mapped)
    }

    /// Checks the ordinal of a device of the memory's runtime.
    fn checked_ordinal(&self, ordinal: usize) -> Result<u32> {
        checked_ordinal(self.memory.device().runtime(), ordinal)
    }

    /// The elements, for the host. Waits for just the work that writes or moves this buffer.
    ///
    /// On a device without concurrent managed access, launches and copies are refused with
    /// [`CudaError::Busy`](crate::CudaError::Busy) while the view lives.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice(&self) -> Result<HostRef<'_, T>> {
        Ok(self.memory.host()?)
    }

    /// The elements, for the host to write. Waits for just the work that uses this buffer.
    ///
    /// On a device without concurrent managed access, launches and copies are refused with
    /// [`CudaError::Busy`](crate::CudaError::Busy) while the view lives.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice_mut(&mut self) -> Result<HostMut<'_, T>> {
        Ok(self.memory.host_mut()?)
    }

    /// The one pointer, for the CPU and the GPU.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.memory.as_ptr()
    }

    /// The one pointer, for the CPU and the GPU.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.memory.as_mut_ptr()
    }

    /// Migrates the buffer to a device; `None` is the buffer's own.
    ///
    /// # Ordering
    /// Enqueued on [`CudaDevice::stream`], after earlier work on the buffer; later work comes after it.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice), [`CudaError::Busy`](crate::CudaError::Busy), and what CUDA
    /// reports. Where nothing can be prefetched, that is no error but [`Placement::NotApplied`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device(&self, device: Option<usize>) -> Result<Placement> {
        let own = self.memory.device().ordinal() as usize;
        let ordinal = self.checked_ordinal(device.unwrap_or(own))?;
        self.prefetch(Location::Device(ordinal))
    }

    /// Migrates the buffer to the host.
    ///
    /// # Ordering
    /// Enqueued on [`CudaDevice::stream`], after earlier work on the buffer; later work comes after it.
    ///
    /// # Errors
    /// As for [`prefetch_to_device`](Self::prefetch_to_device).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host(&self) -> Result<Placement> {
        self.prefetch(Location::Host)
    }

    fn prefetch(&self, location: Location) -> Result<Placement> {
        match self.as_managed() {
            Some(memory) => {
                Placement::from_outcome(match memory.prefetch(location, self.device.stream()) {
                    // The memory was exchanged for that of another runtime.
                    Err(cuda_um::Error::RuntimeMismatch { .. }) => {
                        memory.prefetch(location, &memory.device().default_stream()?)
                    }
                    outcome => outcome,
                })
            }
            None => Ok(Placement::not_managed("prefetch", &self.placed())),
        }
    }

    /// Gives advice for the whole buffer. `device` is the location of advice that has one, and `None` the CPU.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice), and what CUDA reports. Where there is nothing to advise, that
    /// is no error but [`Placement::NotApplied`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_memory_advice(
        &self,
        advice: MemoryAdvice,
        device: Option<usize>,
    ) -> Result<Placement> {
        let location = match device {
            Some(ordinal) => Location::Device(self.checked_ordinal(ordinal)?),
            None => Location::Host,
        };
        match self.as_managed() {
            Some(memory) => Placement::from_outcome(memory.advise(advice.at(location))),
            None => Ok(Placement::not_managed(
                &format!("{advice:?}"),
                &self.placed(),
            )),
        }
    }

    /// Advice [`MemoryAdvice::SetReadMostly`].
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn set_read_mostly(&self) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::SetReadMostly, None)
    }

    /// Advice [`MemoryAdvice::UnsetReadMostly`].
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn unset_read_mostly(&self) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::UnsetReadMostly, None)
    }

    /// Advice [`MemoryAdvice::SetPreferredLocation`] with a device.
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn set_preferred_location(&self, device: usize) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::SetPreferredLocation, Some(device))
    }

    /// Advice [`MemoryAdvice::UnsetPreferredLocation`]. A buffer has at most one preferred location, so none is named.
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn unset_preferred_location(&self) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::UnsetPreferredLocation, None)
    }

    /// Advice [`MemoryAdvice::SetAccessedBy`] with a device.
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn set_accessed_by(&self, device: usize) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::SetAccessedBy, Some(device))
    }

    /// Advice [`MemoryAdvice::UnsetAccessedBy`] with a device.
    ///
    /// # Errors
    /// As for [`set_memory_advice`](Self::set_memory_advice).
    pub fn unset_accessed_by(&self, device: usize) -> Result<Placement> {
        self.set_memory_advice(MemoryAdvice::UnsetAccessedBy, Some(device))
    }

    /// The managed buffer of the safe layer below: for sub-ranges, range attributes, streams. `None` for mapped memory.
    #[must_use]
    pub fn as_managed(&self) -> Option<&cuda_um::UnifiedBuffer<T>> {
        is_managed(&self.memory).then_some(&self.memory)
    }

    /// Waits for the buffer's work and frees it, with the error that dropping it would swallow.
    ///
    /// # Errors
    /// What CUDA reports: a failure of earlier work as well.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        Ok(self.memory.close()?)
    }
}

/// Whether its pages migrate.
pub(crate) fn is_managed<T>(memory: &cuda_um::UnifiedBuffer<T>) -> bool {
    memory.placement().placement == MemoryPlacement::Managed
}

impl<T: Element> Buffer<T> for UnifiedBuffer<T> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn device(&self) -> &BufferDevice {
        &self.place
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Unified(&self.memory)
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Unified(&mut self.memory)
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let device = Arc::clone(&self.device);
        Ok(Box::new(Self::allocate(device, len, self.origin.clone())?))
    }

    fn set_name(&mut self, name: &str) {
        self.memory.set_name(name);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
