//! The functions that allocate erased buffers.

use super::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
use crate::dtype::DType;
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
        self.erased(kind, dtype, len, |bytes| self.create(kind, bytes))
    }

    /// A buffer of bytes that `make` allocates, but for memory of the host, which is aligned for all elements.
    #[track_caller]
    fn erased(
        &self,
        kind: BufferKind,
        dtype: DType,
        len: usize,
        make: impl FnOnce(usize) -> Result<Box<dyn Buffer<u8>>>,
    ) -> Result<ErasedBuffer> {
        let len = size_bytes(dtype, len)?;
        let bytes: Box<dyn Buffer<u8>> = match kind {
            BufferKind::Host if self.shares_pages() => Box::new(HostBuffer::on(&self.device, len)?),
            BufferKind::Host => Box::new(HostBytes::zeroed(len)?),
            _ => make(len)?,
        };
        Ok(ErasedBuffer::of(bytes, dtype))
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
        // SAFETY: guaranteed by the caller.
        self.erased(kind, dtype, len, |bytes| unsafe {
            self.create_uninit(kind, bytes)
        })
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
