//! Pinned host memory that kernels use in place: zero-copy.

use std::any::Any;
use std::sync::Arc;

use cuda_um::{HostMut, HostRef};

use crate::buffer::Buffer;
use crate::device::{BufferDevice, CudaDevice};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// A buffer in pinned host memory, mapped into the device's address space where the device can (`cudaHostAlloc`).
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let mut buffer = backend.create_pinned::<f32>(4)?;
/// buffer.as_slice_mut()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// assert!(buffer.device_ptr().is_some(), "kernels read and write it in place");
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    memory: cuda_um::PinnedBuffer<T>,
    device: BufferDevice,
}

impl<T: Element> PinnedBuffer<T> {
    /// A buffer of `len` zeros; `dtype` must be that of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch),
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), and what CUDA reports.
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn new(device: Arc<CudaDevice>, len: usize, dtype: DType) -> Result<Self> {
        dtype.check::<T>()?;
        let memory = cuda_um::PinnedBuffer::zeroed(device.as_cuda_um(), len)?;
        Ok(Self {
            memory,
            device: BufferDevice::Cuda(device),
        })
    }

    /// The address at which kernels use it; `None` where the device cannot map host memory.
    #[must_use]
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn device_ptr(&self) -> Option<*const T> {
        self.memory.device_ptr()
    }

    /// The elements, for the host. Waits for what writes the buffer.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice(&self) -> Result<HostRef<'_, T>> {
        Ok(self.memory.host()?)
    }

    /// The elements, for the host to write. Waits for what uses the buffer.
    ///
    /// # Errors
    /// What CUDA reports: a failure of that work as well.
    pub fn as_slice_mut(&mut self) -> Result<HostMut<'_, T>> {
        Ok(self.memory.host_mut()?)
    }

    /// The host's address of the first element.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.memory.as_ptr()
    }

    /// The host's address of the first element.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.memory.as_mut_ptr()
    }

    /// The buffer of the safe layer below.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::PinnedBuffer<T> {
        &self.memory
    }

    /// The buffer of the safe layer below. Another one may be put in its place, of another length and device: see
    /// [`Buffer::memory_mut`].
    pub fn as_cuda_um_mut(&mut self) -> &mut cuda_um::PinnedBuffer<T> {
        &mut self.memory
    }

    /// Waits for the buffer's work and frees it, with the error that dropping it would swallow.
    ///
    /// # Errors
    /// What CUDA reports: a failure of earlier work as well.
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
        &self.device
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Pinned(&self.memory)
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Pinned(&mut self.memory)
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let device = self.device.cuda().map(|device| device.as_cuda_um());
        let device = device.unwrap_or(self.memory.device());
        let memory = cuda_um::PinnedBuffer::zeroed(device, len)?;
        Ok(Box::new(Self {
            memory,
            device: self.device.clone(),
        }))
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
