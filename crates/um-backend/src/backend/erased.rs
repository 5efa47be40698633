//! The functions that allocate erased buffers.

use cuda_um::{MemoryKind, UnifiedBuffer};

use super::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::erased::{ErasedBuffer, size_bytes, whole_elements};
#[cfg(doc)]
use crate::error::CudaError;
use crate::error::Result;
use crate::host_buffer::HostBuffer;
use crate::host_bytes::HostBytes;

impl CudaBackend {
    /// Allocates a buffer of `len` zeros of the given kind, whose element type is a value. Its memory is aligned to at least 64 bytes.
    ///
    /// # Errors
    /// [`TooLarge`](CudaError::TooLarge), [`InvalidArgument`](CudaError::InvalidArgument) for opaque elements of no bytes, and as for
    /// [`create`](Self::create).
    #[track_caller]
    pub fn create_erased(
        &self,
        kind: BufferKind,
        dtype: DType,
        len: usize,
    ) -> Result<ErasedBuffer> {
        let len = size_bytes(dtype, len)?;
        let bytes = match kind {
            BufferKind::Host => self.host_bytes(len)?,
            other => self.create(other, len)?,
        };
        Ok(ErasedBuffer::of(bytes, dtype))
    }

    /// Makes a buffer of the given kind with the elements of a vector. On a device with pageable memory access, one of the host takes the vector's
    /// memory, with its alignment, and so does a unified one unless the backend has a pool of its own for them; otherwise it is a copy.
    ///
    /// # Errors
    /// As for [`create_erased_from`](Self::create_erased_from).
    #[track_caller]
    pub fn create_erased_from_vec<T: Element>(
        &self,
        kind: BufferKind,
        elements: Vec<T>,
    ) -> Result<ErasedBuffer> {
        let adopt = |elements| UnifiedBuffer::from_vec(&self.device, elements);
        let has_pool = self.pools.of(MemoryKind::Managed).is_some();
        let bytes: Box<dyn Buffer<u8>> = match (kind, self.shares_pages()) {
            (BufferKind::Unified, true) if !has_pool => Box::new(adopt(elements)?.into_bytes()),
            (BufferKind::Host, true) => {
                Box::new(HostBuffer::adopting(adopt(elements)?.into_bytes()))
            }
            _ => return self.create_erased_from(kind, T::DTYPE, bytemuck::cast_slice(&elements)),
        };
        Ok(ErasedBuffer::of(bytes, T::DTYPE))
    }

    fn host_bytes(&self, len: usize) -> Result<Box<dyn Buffer<u8>>> {
        Ok(match self.shares_pages() {
            true => Box::new(HostBuffer::on(&self.device, len)?),
            false => Box::new(HostBytes::zeroed(len)?),
        })
    }

    /// Allocates a buffer of `len` elements of the given kind, with arbitrary contents: the temporaries of a framework, which a kernel or a
    /// copy writes. Memory of the device comes from a warm pool without a CUDA call; plain memory of the host is zeroed.
    ///
    /// # Examples
    /// ```
    /// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// // SAFETY: `fill` writes each element before the read.
    /// let scratch = unsafe { backend.create_erased_uninit(BufferKind::Unified, DType::F32, 2) }?;
    /// let mut scratch = scratch.into_typed::<f32>()?;
    /// scratch.fill(0.5)?;
    /// assert_eq!(scratch.to_vec()?, [0.5, 0.5]);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    ///
    /// # Errors
    /// As for [`create_erased`](Self::create_erased).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[doc(alias = "empty")]
    #[track_caller]
    pub unsafe fn create_erased_uninit(
        &self,
        kind: BufferKind,
        dtype: DType,
        len: usize,
    ) -> Result<ErasedBuffer> {
        let len = size_bytes(dtype, len)?;
        let bytes = match kind {
            BufferKind::Host => self.host_bytes(len)?,
            // SAFETY: guaranteed by the caller.
            other => unsafe { self.create_uninit(other, len)? },
        };
        Ok(ErasedBuffer::of(bytes, dtype))
    }

    /// Allocates a buffer of the given kind with the elements that the bytes hold, at any address.
    ///
    /// # Errors
    /// As for [`create_erased`](Self::create_erased); [`InvalidArgument`](CudaError::InvalidArgument) if the bytes are not whole elements.
    #[allow(unsafe_code, reason = "the copy writes each element")]
    #[track_caller]
    pub fn create_erased_from(
        &self,
        kind: BufferKind,
        dtype: DType,
        bytes: &[u8],
    ) -> Result<ErasedBuffer> {
        let len = whole_elements("the source of create_erased_from", dtype, bytes.len())?;
        // SAFETY: the buffer is returned only after the copy of all elements.
        let mut buffer = unsafe { self.create_erased_uninit(kind, dtype, len) }?;
        buffer.bytes_mut().copy_from_host(bytes)?;
        Ok(buffer)
    }
}
