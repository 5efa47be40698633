//! Pinned host memory.
#![allow(
    unsafe_code,
    reason = "initialises memory of the runtime, and asks for its address on the device"
)]

use super::raw::RawBuffer;
use super::{backing, element, range};
use crate::Element;
use crate::device::Device;
use crate::error::Result;
use std::marker::PhantomData;

/// Page-locked memory of the host (`cudaHostAlloc`): fast to copy from and to, and, where the device can map it, used by kernels
/// in place (zero-copy).
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, PinnedBuffer};
///
/// let stream = device.stream()?;
/// let on_device = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
/// let mut results = PinnedBuffer::<u32>::zeroed(&device, 3)?;
/// stream.copy(&on_device, &mut results)?;
/// assert_eq!(*results.host()?, [1, 2, 3]); // waits for the copy alone
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaHostAlloc")]
#[doc(alias = "cudaMallocHost")]
pub struct PinnedBuffer<T> {
    pub(crate) raw: RawBuffer,
    _elements: PhantomData<T>,
}

buffer_methods!([] PinnedBuffer);
host_methods!([] PinnedBuffer);

impl<T: Element> PinnedBuffer<T> {
    /// `len` zeros.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::TooLarge`](crate::Error::TooLarge), and what the CUDA
    /// functions report.
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let buffer = Self::allocate(device, len)?;
        // SAFETY: the memory is valid for its bytes, and nobody else has it yet.
        unsafe {
            buffer
                .raw
                .pointer()
                .as_ptr()
                .write_bytes(0, buffer.raw.bytes())
        };
        Ok(buffer)
    }

    /// A copy of a slice.
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate(device, elements.len())?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    fn allocate(device: &Device, len: usize) -> Result<Self> {
        const { element::assert_element::<T>() };
        let bytes = range::size_bytes::<T>(len)?;
        if bytes == 0 {
            return Ok(Self {
                raw: RawBuffer::empty::<T>(device),
                _elements: PhantomData,
            });
        }
        let raw = backing::mapped(device, bytes)?;
        Ok(Self {
            raw,
            _elements: PhantomData,
        })
    }
}

impl<T> PinnedBuffer<T> {
    /// The address of the first element for kernels; `None` if the device cannot map host memory.
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn device_ptr(&self) -> Option<*const T> {
        self.raw
            .device_pointer()
            .map(|pointer| pointer.as_ptr().cast_const().cast())
    }

    /// Waits for the buffer's own work and frees it, with the error that dropping it would swallow.
    ///
    /// # Errors
    ///
    /// What the CUDA functions report: a failure of that work as well. The memory is then leaked.
    #[doc(alias = "cudaFreeHost")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}
