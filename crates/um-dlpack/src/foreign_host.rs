//! Memory of the CPU with another owner, as a buffer.
#![allow(unsafe_code, reason = "memory of another library is a slice here")]

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use um_backend::{
    Buffer, CudaError, Device, HostBuffer,
    memory::{BufferMemory, BufferMemoryMut},
};

/// Bytes of the CPU that belong to `owner`.
pub(crate) struct ForeignHost {
    start: NonNull<u8>,
    len: usize,
    read_only: bool,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are accessed as the methods of a slice allow it, and `new` requires that any thread may do so. The owner is only
// dropped.
unsafe impl Send for ForeignHost {}
// SAFETY: as above; `&self` only reads the bytes, and does not reach the owner.
unsafe impl Sync for ForeignHost {}

impl ForeignHost {
    /// # Safety
    /// Until the owner is dropped, the bytes are valid, initialised, may be read by any thread, and written unless `read_only`; other code
    /// does not access them while a borrow of this buffer exists that excludes the access.
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        len: usize,
        read_only: bool,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            start,
            len,
            read_only,
            _owner: owner,
        }
    }

    fn check_write(&self) -> Result<(), CudaError> {
        if self.read_only {
            let what = format!("host memory at {:p}", self.start);
            return Err(um_backend::cuda_um::Error::ReadOnly { what });
        }
        Ok(())
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8], CudaError> {
        self.check_write()?;
        // SAFETY: guaranteed by the caller of `new`, and the borrow is exclusive.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }
}

impl Buffer<u8> for ForeignHost {
    fn len(&self) -> usize {
        self.len
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, u8> {
        // SAFETY: guaranteed by the caller of `new`.
        BufferMemory::Host(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, u8> {
        match self.bytes_mut() {
            Ok(bytes) => BufferMemoryMut::Host(bytes),
            Err(_) => BufferMemoryMut::Opaque,
        }
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[u8]) -> Result<(), CudaError> {
        let range = um_backend::cuda_um::range::check_at(offset, source.len(), self.len)?;
        self.check_write()?;
        // SAFETY: the range is within the bytes, which the borrow lets this call write. The source may be memory of the same owner, and
        // overlap: no slice of the target exists.
        unsafe {
            let target = self.start.as_ptr().add(range.start);
            std::ptr::copy(source.as_ptr(), target, range.len());
        }
        Ok(())
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<u8>>, CudaError> {
        Ok(Box::new(HostBuffer::zeroed(len)?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl fmt::Debug for ForeignHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignHost")
            .field("len", &self.len)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
