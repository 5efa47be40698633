//! The functions that allocate buffers.

use std::mem::MaybeUninit;

use cuda_um::buffer::kind::{Device, Owned, Pinned};
use cuda_um::{AccessPattern, DeviceBuffer, Memory, MemoryKind, UnifiedBuffer, UnifiedOptions};

use super::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
#[cfg(doc)]
use crate::config::CudaBackendConfig;
use crate::dtype::Element;
use crate::error::Result;
use crate::host_buffer::HostBuffer;

impl CudaBackend {
    /// Allocates a unified buffer of `len` zeros: managed memory, from the pool if there is one ([`CudaBackendConfig::unified_pool`]); or
    /// mapped pinned memory if managed memory is poor. [`UnifiedBuffer::placement`] tells which.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also beyond the pool's limit, and for more than the device has free
    /// unless [`CudaBackendConfig::oversubscription`] allows it; and errors of CUDA.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn allocate_unified<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        self.allocate_unified_for(len, AccessPattern::General)
    }

    /// Allocates a unified buffer of `len` zeros for an access pattern. The pattern, the size and the machine's cost model select
    /// managed memory, with or without advice, or mapped memory. Only [`AccessPattern::General`] uses the pool.
    ///
    /// # Errors
    /// As for [`allocate_unified`](Self::allocate_unified).
    #[doc(alias = "cudaMallocManaged")]
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn allocate_unified_for<T: Element>(
        &self,
        len: usize,
        pattern: AccessPattern,
    ) -> Result<UnifiedBuffer<T>> {
        match (self.pools.of(MemoryKind::Managed), pattern) {
            (Some(pool), AccessPattern::General) => UnifiedBuffer::zeroed_in(pool, len),
            _ => UnifiedBuffer::zeroed_with(&self.device, len, self.unified_options(pattern)),
        }
    }

    fn unified_options(&self, pattern: AccessPattern) -> UnifiedOptions {
        let options = UnifiedOptions::default().pattern(pattern);
        options.oversubscription(self.config.oversubscription)
    }

    /// Allocates a buffer of `len` zeros in device memory.
    ///
    /// # Errors
    /// As for [`DeviceBuffer::zeroed`].
    #[doc(alias = "cudaMalloc")]
    #[track_caller]
    pub fn create_cuda<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        self.zeroed(len)
    }

    /// Zeros in memory of the kind, from the backend's own pool if it has one. Not for unified buffers, which have options.
    #[track_caller]
    fn zeroed<T: Element, K: Owned>(&self, len: usize) -> Result<Memory<T, K>> {
        match self.pools.of(K::KIND) {
            Some(pool) => Memory::zeroed_in(pool, len),
            None => Memory::zeroed(&self.device, len),
        }
    }

    #[track_caller]
    fn uninit<T: Element, K: Owned>(&self, len: usize) -> Result<Memory<MaybeUninit<T>, K>> {
        match self.pools.of(K::KIND) {
            Some(pool) => Memory::<T, K>::uninit_in(pool, len),
            None => Memory::<T, K>::uninit(&self.device, len),
        }
    }

    /// Allocates a buffer of `len` zeros of the given kind.
    ///
    /// # Errors
    /// As for the constructor of that kind.
    #[track_caller]
    pub fn create<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(match kind {
            BufferKind::Unified => Box::new(self.allocate_unified(len)?),
            BufferKind::Cuda => Box::new(self.create_cuda(len)?),
            BufferKind::Pinned => Box::new(self.zeroed::<T, Pinned>(len)?),
            BufferKind::Host => Box::new(match self.shares_pages() {
                true => HostBuffer::on(&self.device, len)?,
                false => HostBuffer::zeroed(len)?,
            }),
        })
    }

    /// Allocates a buffer of the given kind, with the contents of a slice.
    ///
    /// # Ordering
    /// As for [`Buffer::copy_from_host`]: the slice may be used again when this returns.
    ///
    /// # Errors
    /// As for the constructor of that kind, and for [`Buffer::copy_from_host`].
    #[allow(unsafe_code, reason = "the copy writes each element")]
    #[track_caller]
    pub fn create_from<T: Element>(
        &self,
        kind: BufferKind,
        elements: &[T],
    ) -> Result<Box<dyn Buffer<T>>> {
        // SAFETY: the buffer is returned only after the copy of all elements.
        let mut buffer = unsafe { self.create_uninit(kind, elements.len()) }?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Whether kernels use memory of the operating system in place.
    pub(super) fn shares_pages(&self) -> bool {
        self.device.capabilities().pageable_memory_access
    }

    /// Allocates a buffer of `len` elements of the given kind, with arbitrary contents: the temporaries of a framework, which a kernel or a
    /// copy writes. Memory of the device comes from a warm pool without a CUDA call; plain memory of the host is zeroed.
    ///
    /// # Examples
    /// ```
    /// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// // SAFETY: `fill` writes each element before the read.
    /// let mut scratch = unsafe { backend.create_uninit::<f32>(BufferKind::Unified, 2) }?;
    /// scratch.fill(0.5)?;
    /// let mut back = [0.0; 2];
    /// scratch.copy_to_host(&mut back)?;
    /// assert_eq!(back, [0.5, 0.5]);
    ///
    /// // SAFETY: the same.
    /// let mut scratch = unsafe { backend.create_erased_uninit(BufferKind::Unified, um_backend::DType::F32, 2) }?;
    /// scratch.bytes_mut().set_zero()?;
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    ///
    /// # Errors
    /// As for the constructor of that kind.
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[doc(alias = "empty")]
    #[track_caller]
    pub unsafe fn create_uninit<T: Element>(
        &self,
        kind: BufferKind,
        len: usize,
    ) -> Result<Box<dyn Buffer<T>>> {
        Ok(match kind {
            BufferKind::Unified => {
                let options = self.unified_options(AccessPattern::General);
                let memory = match self.pools.of(MemoryKind::Managed) {
                    Some(pool) => UnifiedBuffer::uninit_in(pool, len)?,
                    None => UnifiedBuffer::uninit_with(&self.device, len, options)?,
                };
                // SAFETY: guaranteed by the caller.
                Box::new(unsafe { memory.assume_init() })
            }
            // SAFETY: guaranteed by the caller.
            BufferKind::Cuda => Box::new(unsafe { self.uninit::<T, Device>(len)?.assume_init() }),
            // SAFETY: guaranteed by the caller.
            BufferKind::Pinned => Box::new(unsafe { self.uninit::<T, Pinned>(len)?.assume_init() }),
            BufferKind::Host => self.create(kind, len)?,
        })
    }
}
