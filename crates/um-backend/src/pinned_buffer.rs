//! Buffers in pinned host memory (zero-copy).

use std::any::Any;
use std::sync::Arc;

use cuda_um::{HostMut, HostRef, Pool};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice};
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// A buffer in pinned host memory (`cudaHostAlloc`), mapped into the device's address space if the device supports it.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let mut buffer = backend.create_pinned::<f32>(4)?;
/// buffer.host_mut()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// assert!(buffer.device_ptr().is_some(), "kernels access it in place");
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    memory: cuda_um::PinnedBuffer<T>,
    device: Arc<CudaDevice>,
    place: BufferDevice,
    /// The backend's pool, if the memory comes from it. [`Buffer::clone_empty`] allocates from it, too.
    pool: Option<Pool>,
}

impl<T: Element> PinnedBuffer<T> {
    /// Allocates a buffer of `len` zeros.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), and errors of CUDA.
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn zeroed(device: Arc<CudaDevice>, len: usize) -> Result<Self> {
        Self::allocate(device, len, None)
    }

    /// Allocates a copy of a slice.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: Arc<CudaDevice>, elements: &[T]) -> Result<Self> {
        let memory = cuda_um::PinnedBuffer::from_slice(device.as_cuda_um(), elements)?;
        Ok(Self::of(memory, device, None))
    }

    /// Makes a buffer of one of the safe layer below: memory of another library ([`from_foreign`](cuda_um::PinnedBuffer::from_foreign)), or of a
    /// memory resource. [`Buffer::clone_empty`] allocates as [`zeroed`](Self::zeroed) does.
    ///
    /// # Errors
    /// [`DeviceMismatch`](cuda_um::Error::DeviceMismatch) if the memory belongs to another device. The buffer is then dropped.
    pub fn from_cuda_um(device: Arc<CudaDevice>, memory: cuda_um::PinnedBuffer<T>) -> Result<Self> {
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
            Some(pool) => cuda_um::PinnedBuffer::zeroed_in(pool, len)?,
            None => cuda_um::PinnedBuffer::zeroed(device.as_cuda_um(), len)?,
        };
        Ok(Self::of(memory, device, pool))
    }

    fn of(memory: cuda_um::PinnedBuffer<T>, device: Arc<CudaDevice>, pool: Option<Pool>) -> Self {
        const { dtype_of::<T>() };
        Self {
            memory,
            place: BufferDevice::Cuda(Arc::clone(&device)),
            device,
            pool,
        }
    }

    /// The address for kernels; `None` if the device cannot map host memory.
    #[must_use]
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn device_ptr(&self) -> Option<*const T> {
        self.memory.device_ptr()
    }

    /// The elements, for the host to read. Waits only for the work that writes this buffer.
    ///
    /// # Errors
    /// Errors of CUDA, also of the work that it waits for.
    pub fn host(&self) -> Result<HostRef<'_, T>> {
        Ok(self.memory.host()?)
    }

    /// The elements, for the host to write. Waits only for the work that uses this buffer.
    ///
    /// # Errors
    /// Errors of CUDA, also of the work that it waits for.
    pub fn host_mut(&mut self) -> Result<HostMut<'_, T>> {
        Ok(self.memory.host_mut()?)
    }

    /// The address for the host.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.memory.as_ptr()
    }

    /// The address for the host.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.memory.as_mut_ptr()
    }

    /// The buffer of the safe layer below.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::PinnedBuffer<T> {
        &self.memory
    }

    /// The buffer of the safe layer below. It can be exchanged for a buffer of another length and
    /// device (`std::mem::swap`): every call then uses the new memory, and [`Buffer::device`] still is the device of the allocation.
    pub fn as_cuda_um_mut(&mut self) -> &mut cuda_um::PinnedBuffer<T> {
        &mut self.memory
    }

    /// Waits for the buffer's work, frees it, and returns the error that a drop would ignore.
    ///
    /// # Errors
    /// Errors of CUDA, also of earlier work.
    #[doc(alias = "cudaFreeHost")]
    pub fn close(self) -> Result<()> {
        Ok(self.memory.close()?)
    }
}

impl<T: Element> Buffer<T> for PinnedBuffer<T> {
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
