//! Buffers in device memory.

use std::any::Any;
use std::sync::Arc;

use cuda_um::{DeviceBuffer, Pool};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice};
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// A buffer in device memory (`cudaMalloc`). The host accesses it only by copies.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, CudaBuffer};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let mut buffer = CudaBuffer::<f32>::zeroed(backend.device().clone(), 4)?;
/// buffer.copy_from_host(&[1.0, 2.0, 3.0, 4.0])?;
/// let mut middle = [0.0; 2];
/// buffer.copy_to_host_at(1, &mut middle)?;
/// assert_eq!(middle, [2.0, 3.0]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct CudaBuffer<T> {
    memory: cuda_um::DeviceBuffer<T>,
    device: Arc<CudaDevice>,
    place: BufferDevice,
    /// The backend's pool, if the memory comes from it. [`Buffer::clone_empty`] allocates from it, too.
    pool: Option<Pool>,
}

impl<T: Element> CudaBuffer<T> {
    /// Allocates a buffer of `len` zeros.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), and errors of CUDA.
    #[doc(alias = "cudaMalloc")]
    #[track_caller]
    pub fn zeroed(device: Arc<CudaDevice>, len: usize) -> Result<Self> {
        Self::allocate(device, len, None)
    }

    /// Allocates a copy of a slice, which may be used again when this returns.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: Arc<CudaDevice>, elements: &[T]) -> Result<Self> {
        let memory = cuda_um::DeviceBuffer::from_slice(device.as_cuda_um(), elements)?;
        Ok(Self::of(memory, device, None))
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
        unsafe { Self::allocate_uninit(device, len, None) }
    }

    /// Makes a buffer of one of the safe layer below: memory of another library ([`from_foreign`](cuda_um::DeviceBuffer::from_foreign)), or of a
    /// memory resource. [`Buffer::clone_empty`] allocates as [`zeroed`](Self::zeroed) does.
    ///
    /// # Errors
    /// [`DeviceMismatch`](cuda_um::Error::DeviceMismatch) if the memory belongs to another device. The buffer is then dropped.
    pub fn from_cuda_um(device: Arc<CudaDevice>, memory: cuda_um::DeviceBuffer<T>) -> Result<Self> {
        device.check_owns(memory.device())?;
        Ok(Self::of(memory, device, None))
    }

    #[track_caller]
    pub(crate) fn allocate(
        device: Arc<CudaDevice>,
        len: usize,
        pool: Option<Pool>,
    ) -> Result<Self> {
        let memory = match &pool {
            Some(pool) => DeviceBuffer::zeroed_in(pool, len)?,
            None => cuda_um::DeviceBuffer::zeroed(device.as_cuda_um(), len)?,
        };
        Ok(Self::of(memory, device, pool))
    }

    /// # Safety
    /// As for [`uninit`](Self::uninit).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[track_caller]
    pub(crate) unsafe fn allocate_uninit(
        device: Arc<CudaDevice>,
        len: usize,
        pool: Option<Pool>,
    ) -> Result<Self> {
        let memory = match &pool {
            Some(pool) => DeviceBuffer::uninit_in(pool, len)?,
            None => cuda_um::DeviceBuffer::uninit(device.as_cuda_um(), len)?,
        };
        // SAFETY: guaranteed by the caller.
        Ok(Self::of(unsafe { memory.assume_init() }, device, pool))
    }

    fn of(memory: cuda_um::DeviceBuffer<T>, device: Arc<CudaDevice>, pool: Option<Pool>) -> Self {
        const { dtype_of::<T>() };
        Self {
            memory,
            place: BufferDevice::Cuda(Arc::clone(&device)),
            device,
            pool,
        }
    }

    /// The buffer of the safe layer below.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::DeviceBuffer<T> {
        &self.memory
    }

    /// The buffer of the safe layer below. It can be exchanged for a buffer of another length and
    /// device (`std::mem::swap`): every call then uses the new memory, and [`Buffer::device`] still is the device of the allocation.
    pub fn as_cuda_um_mut(&mut self) -> &mut cuda_um::DeviceBuffer<T> {
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

impl<T: Element> Buffer<T> for CudaBuffer<T> {
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
        Ok(Box::new(Self::allocate(device, len, self.pool.clone())?))
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
