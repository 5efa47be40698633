//! The functions that allocate erased buffers.

use cuda_um::{AccessPattern, Error, UnifiedBuffer};

use super::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::erased::{ErasedBuffer, size_bytes};
use crate::error::Result;
use crate::host_buffer::HostBuffer;
use crate::host_bytes::HostBytes;

impl CudaBackend {
    /// Allocates a buffer of `len` zeros of the given kind, whose element type is a value. Its memory is aligned to at least 64 bytes.
    ///
    /// # Errors
    /// [`TooLarge`](Error::TooLarge), [`InvalidArgument`](Error::InvalidArgument) for opaque elements of no bytes, and as for
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

    /// Allocates a buffer of `len` zeros in unified memory for an access pattern: see [`allocate_unified_for`](Self::allocate_unified_for).
    /// [`ErasedBuffer::placement`] tells which memory it is.
    ///
    /// # Errors
    /// As for [`create_erased`](Self::create_erased).
    #[track_caller]
    pub fn create_erased_for(
        &self,
        pattern: AccessPattern,
        dtype: DType,
        len: usize,
    ) -> Result<ErasedBuffer> {
        let bytes = self.allocate_unified_for::<u8>(size_bytes(dtype, len)?, pattern)?;
        Ok(ErasedBuffer::of(Box::new(bytes), dtype))
    }

    /// Makes a buffer of the given kind with the elements of a vector. On a device with pageable memory access, a unified buffer and one of the
    /// host take the vector's memory, with its alignment, as [`create_from_vec`](Self::create_from_vec) does; otherwise it is a copy.
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
        let bytes: Box<dyn Buffer<u8>> = match kind {
            BufferKind::Unified if self.adopts() => Box::new(adopt(elements)?.into_bytes()),
            BufferKind::Host if self.device.capabilities().pageable_memory_access => {
                Box::new(HostBuffer::adopting(adopt(elements)?.into_bytes()))
            }
            _ => return self.create_erased_from(kind, T::DTYPE, bytemuck::cast_slice(&elements)),
        };
        Ok(ErasedBuffer::of(bytes, T::DTYPE))
    }

    fn host_bytes(&self, len: usize) -> Result<Box<dyn Buffer<u8>>> {
        Ok(match self.device.capabilities().pageable_memory_access {
            true => Box::new(HostBuffer::aligned_on(&self.device, len)?),
            false => Box::new(HostBytes::zeroed(len)?),
        })
    }

    /// Allocates a buffer of `len` elements of the given kind, with arbitrary contents: see [`create_uninit`](Self::create_uninit).
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    ///
    /// # Errors
    /// As for [`create_erased`](Self::create_erased).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
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
    /// As for [`create_erased`](Self::create_erased); [`InvalidArgument`](Error::InvalidArgument) if the bytes are not whole elements.
    #[allow(unsafe_code, reason = "the copy writes each element")]
    #[track_caller]
    pub fn create_erased_from(
        &self,
        kind: BufferKind,
        dtype: DType,
        bytes: &[u8],
    ) -> Result<ErasedBuffer> {
        let (width, found) = (dtype.size_bytes().max(1), bytes.len());
        if !found.is_multiple_of(width) {
            return Err(Error::InvalidArgument {
                what: "the source of create_erased_from",
                value: format!("{found} bytes"),
                reason: format!("an element of {dtype} has {width} bytes"),
            });
        }
        let len = found / width;
        // SAFETY: the buffer is returned only after the copy of all elements.
        let mut buffer = unsafe { self.create_erased_uninit(kind, dtype, len) }?;
        buffer.copy_from_bytes(bytes)?;
        Ok(buffer)
    }
}
