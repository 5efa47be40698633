//! Pinned host memory.
#![allow(
    unsafe_code,
    reason = "initialises memory of the runtime, and asks for its address on the device"
)]

use crate::Element;
use crate::context::device::Device;
use crate::context::tracker::Access;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing;
use crate::{element, range};
use std::marker::PhantomData;
use std::panic::Location;

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
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let mut buffer = Self::from_raw(allocate::<T>(device, len)?, Location::caller());
        buffer.zero_on_host()?;
        Ok(buffer)
    }

    /// A copy of a slice.
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::from_raw(allocate::<T>(device, elements.len())?, Location::caller());
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Zeros, written by the host once no work uses the memory any more.
    pub(crate) fn zero_on_host(&mut self) -> Result<()> {
        let _closed = self.raw.wait_for_host(Access::Write)?;
        // SAFETY: the memory is valid for its bytes, borrowed exclusively, and no device uses it any more.
        unsafe { self.raw.pointer().as_ptr().write_bytes(0, self.raw.bytes()) };
        Ok(())
    }
}

fn allocate<T>(device: &Device, len: usize) -> Result<RawBuffer> {
    const { element::assert_element::<T>() };
    match range::size_bytes::<T>(len)? {
        0 => Ok(RawBuffer::empty::<T>(device)),
        bytes => backing::with_retry(device, || allocate_bytes(device, bytes)),
    }
}

/// Pinned memory, mapped where the device can; not initialised.
pub(crate) fn allocate_bytes(device: &Device, bytes: usize) -> Result<RawBuffer> {
    let memory = backing::pinned(device, bytes)?;
    let pointer = memory.0;
    // Owns the memory from here on, whatever the next call says.
    let unmapped = RawBuffer::new(device, memory, None, bytes);
    if !device.capabilities().map_host_memory {
        return Ok(unmapped);
    }
    // SAFETY: it is mapped, for the device can.
    let device_pointer = unsafe { device.api().host_device_pointer(device.ordinal(), pointer) }?;
    Ok(unmapped.mapped_at(device_pointer))
}

impl<T> PinnedBuffer<T> {
    /// A buffer over pinned memory that was made elsewhere.
    pub(crate) fn from_raw(raw: RawBuffer, site: &'static Location<'static>) -> Self {
        Self {
            raw: raw.labelled(Label::of::<T>("PinnedBuffer", site)),
            _elements: PhantomData,
        }
    }

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
