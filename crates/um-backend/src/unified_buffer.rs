//! One pointer for the CPU and the GPU.

use std::any::Any;
use std::sync::Arc;

use cuda_um::{HostMut, HostRef, Location, Oversubscription, UnifiedOptions};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::placement::{MemoryAdvice, Placement};

/// A buffer of unified memory: managed memory, or, on a GPU where that is poor, mapped pinned memory behind the same calls.
///
/// [`backing`](Self::backing) says which, and why.
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
    memory: Memory<T>,
    device: Arc<CudaDevice>,
    place: BufferDevice,
    oversubscription: Oversubscription,
}

#[derive(Debug)]
enum Memory<T> {
    Managed(cuda_um::UnifiedBuffer<T>),
    Pinned {
        buffer: cuda_um::PinnedBuffer<T>,
        reason: String,
    },
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
}

impl<T: Element> UnifiedBuffer<T> {
    /// A buffer of `len` zeros; `dtype` must be that of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch);
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also for more than the device has free; and what CUDA reports.
    #[doc(alias = "cudaMallocManaged")]
    pub fn new(device: Arc<CudaDevice>, len: usize, dtype: DType) -> Result<Self> {
        dtype.check::<T>()?;
        Self::allocate(device, len, Oversubscription::Refused)
    }

    pub(crate) fn allocate(
        device: Arc<CudaDevice>,
        len: usize,
        oversubscription: Oversubscription,
    ) -> Result<Self> {
        let memory = match device.unified_memory_obstacle() {
            None => {
                let options = UnifiedOptions::default().oversubscription(oversubscription);
                Memory::Managed(cuda_um::UnifiedBuffer::zeroed_with(
                    device.as_cuda_um(),
                    len,
                    options,
                )?)
            }
            Some(reason) => Memory::Pinned {
                buffer: cuda_um::PinnedBuffer::zeroed(device.as_cuda_um(), len)?,
                reason,
            },
        };
        Ok(Self {
            memory,
            place: BufferDevice::Cuda(Arc::clone(&device)),
            device,
            oversubscription,
        })
    }

    /// What memory it really has, and, for the fallback, why.
    #[must_use]
    pub fn backing(&self) -> UnifiedBacking {
        match &self.memory {
            Memory::Managed(_) => UnifiedBacking::Managed,
            Memory::Pinned { reason, .. } => UnifiedBacking::PinnedFallback {
                reason: reason.clone(),
            },
        }
    }

    /// Whether it is pinned memory instead of managed memory.
    #[must_use]
    pub fn is_fallback(&self) -> bool {
        matches!(self.memory, Memory::Pinned { .. })
    }

    /// The elements, for the host. Waits for just the work that writes or moves this buffer.
    ///
    /// On a device without concurrent managed access, launches and copies are refused with
    /// [`CudaError::Busy`](crate::CudaError::Busy) while the view lives.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice(&self) -> Result<HostRef<'_, T>> {
        Ok(match &self.memory {
            Memory::Managed(buffer) => buffer.host()?,
            Memory::Pinned { buffer, .. } => buffer.host()?,
        })
    }

    /// The elements, for the host to write. Waits for just the work that uses this buffer.
    ///
    /// On a device without concurrent managed access, launches and copies are refused with
    /// [`CudaError::Busy`](crate::CudaError::Busy) while the view lives.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice_mut(&mut self) -> Result<HostMut<'_, T>> {
        Ok(match &mut self.memory {
            Memory::Managed(buffer) => buffer.host_mut()?,
            Memory::Pinned { buffer, .. } => buffer.host_mut()?,
        })
    }

    /// The one pointer, for the CPU and the GPU.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        match &self.memory {
            Memory::Managed(buffer) => buffer.as_ptr(),
            Memory::Pinned { buffer, .. } => buffer.as_ptr(),
        }
    }

    /// The one pointer, for the CPU and the GPU.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        match &mut self.memory {
            Memory::Managed(buffer) => buffer.as_mut_ptr(),
            Memory::Pinned { buffer, .. } => buffer.as_mut_ptr(),
        }
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
        let ordinal = self
            .device
            .checked_ordinal(device.unwrap_or(self.device.ordinal()))?;
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
        match &self.memory {
            Memory::Managed(buffer) => {
                Placement::from_outcome(buffer.prefetch(location, self.device.stream()))
            }
            Memory::Pinned { reason, .. } => Ok(not_managed("prefetch", reason)),
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
            Some(ordinal) => Location::Device(self.device.checked_ordinal(ordinal)?),
            None => Location::Host,
        };
        match &self.memory {
            Memory::Managed(buffer) => Placement::from_outcome(buffer.advise(advice.at(location))),
            Memory::Pinned { reason, .. } => Ok(not_managed(&format!("{advice:?}"), reason)),
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

    /// The managed buffer of the safe layer below: for sub-ranges, range attributes, streams. `None` on the fallback.
    #[must_use]
    pub fn as_managed(&self) -> Option<&cuda_um::UnifiedBuffer<T>> {
        match &self.memory {
            Memory::Managed(buffer) => Some(buffer),
            Memory::Pinned { .. } => None,
        }
    }

    /// Waits for the buffer's work and frees it, with the error that dropping it would swallow.
    ///
    /// # Errors
    /// What CUDA reports: a failure of earlier work as well.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        match self.memory {
            Memory::Managed(buffer) => buffer.close()?,
            Memory::Pinned { buffer, .. } => buffer.close()?,
        }
        Ok(())
    }
}

fn not_managed(what: &str, reason: &str) -> Placement {
    Placement::NotApplied {
        what: what.to_owned(),
        needs: "managed memory".to_owned(),
        have: format!("pinned memory, since {reason}"),
    }
}

impl<T: Element> Buffer<T> for UnifiedBuffer<T> {
    fn len(&self) -> usize {
        match &self.memory {
            Memory::Managed(buffer) => buffer.len(),
            Memory::Pinned { buffer, .. } => buffer.len(),
        }
    }

    fn device(&self) -> &BufferDevice {
        &self.place
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        match &self.memory {
            Memory::Managed(buffer) => BufferMemory::Unified(buffer),
            Memory::Pinned { buffer, .. } => BufferMemory::Pinned(buffer),
        }
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        match &mut self.memory {
            Memory::Managed(buffer) => BufferMemoryMut::Unified(buffer),
            Memory::Pinned { buffer, .. } => BufferMemoryMut::Pinned(buffer),
        }
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(Box::new(Self::allocate(
            Arc::clone(&self.device),
            len,
            self.oversubscription,
        )?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
