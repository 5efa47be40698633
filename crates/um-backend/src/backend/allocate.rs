//! The functions that allocate buffers.

use cuda_um::buffer::kind::{Device, Owned, Pinned};
use cuda_um::{Memory, MemoryKind, UnifiedBuffer, UnifiedOptions};

use super::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
#[cfg(doc)]
use crate::config::CudaBackendConfig;
use crate::dtype::Element;
use crate::error::Result;
use crate::host_buffer::HostBuffer;

impl CudaBackend {
    /// Allocates a unified buffer of `len` zeros: managed memory, from the pool if there is one ([`CudaBackendConfig::unified_pool`]); or
    /// mapped pinned memory if managed memory is poor. [`UnifiedBuffer::placement`] tells which. [`UnifiedBuffer::zeroed_with`] takes an access
    /// pattern.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also beyond the pool's limit, and for more than the device has free
    /// unless [`CudaBackendConfig::oversubscription`] allows it; and errors of CUDA.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn allocate_unified<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        match self.pools.of(MemoryKind::Managed) {
            Some(pool) => UnifiedBuffer::zeroed_in(pool, len),
            None => UnifiedBuffer::zeroed_with(&self.device, len, self.unified_options()),
        }
    }

    fn unified_options(&self) -> UnifiedOptions {
        UnifiedOptions::default().oversubscription(self.config.oversubscription)
    }

    /// Zeros in memory of the kind, from the backend's own pool if it has one. Not for unified buffers, which have options.
    #[track_caller]
    pub(crate) fn zeroed<T: Element, K: Owned>(&self, len: usize) -> Result<Memory<T, K>> {
        match self.pools.of(K::KIND) {
            Some(pool) => Memory::zeroed_in(pool, len),
            None => Memory::zeroed(&self.device, len),
        }
    }

    /// # Safety
    /// As for [`create_uninit`](Self::create_uninit).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[track_caller]
    unsafe fn uninit<T: Element, K: Owned>(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let memory = match self.pools.of(K::KIND) {
            Some(pool) => Memory::<T, K>::uninit_in(pool, len)?,
            None => Memory::<T, K>::uninit(&self.device, len)?,
        };
        // SAFETY: guaranteed by the caller.
        Ok(Box::new(unsafe { memory.assume_init() }))
    }

    /// Allocates a buffer of `len` zeros of the given kind.
    ///
    /// # Errors
    /// As for the constructor of that kind.
    #[track_caller]
    pub fn create<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(match kind {
            BufferKind::Unified => Box::new(self.allocate_unified(len)?),
            BufferKind::Cuda => Box::new(self.zeroed::<T, Device>(len)?),
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

    /// Allocates elements with arbitrary contents: see [`create_erased_uninit`](Self::create_erased_uninit).
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[track_caller]
    pub(super) unsafe fn create_uninit<T: Element>(
        &self,
        kind: BufferKind,
        len: usize,
    ) -> Result<Box<dyn Buffer<T>>> {
        match kind {
            BufferKind::Unified => {
                let memory = match self.pools.of(MemoryKind::Managed) {
                    Some(pool) => UnifiedBuffer::uninit_in(pool, len)?,
                    None => UnifiedBuffer::uninit_with(&self.device, len, self.unified_options())?,
                };
                // SAFETY: guaranteed by the caller.
                Ok(Box::new(unsafe { memory.assume_init() }))
            }
            // SAFETY: guaranteed by the caller.
            BufferKind::Cuda => unsafe { self.uninit::<T, Device>(len) },
            // SAFETY: guaranteed by the caller.
            BufferKind::Pinned => unsafe { self.uninit::<T, Pinned>(len) },
            BufferKind::Host => self.create(kind, len),
        }
    }
}
