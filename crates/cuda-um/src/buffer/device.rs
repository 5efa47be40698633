//! Device memory.

use crate::Element;
use crate::context::device::Device;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing;
use crate::{element, range};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;

/// Memory of one device (`cudaMalloc`), which the host reaches by copies alone.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::DeviceBuffer;
///
/// let mut buffer = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
/// buffer.copy_from_host_at(1, &[7])?;
/// let mut back = [0; 3];
/// buffer.copy_to_host(&mut back)?;
/// assert_eq!(back, [1, 7, 3]);
/// buffer.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// Dropping it while a device uses it neither waits nor frees too early: a thread of the library frees it later.
#[doc(alias = "cudaMalloc")]
pub struct DeviceBuffer<T> {
    pub(crate) raw: RawBuffer,
    _elements: PhantomData<T>,
}

buffer_methods!([] DeviceBuffer);

impl<T: Element> DeviceBuffer<T> {
    /// `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream); whatever uses the buffer comes after.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::TooLarge`](crate::Error::TooLarge), and what the CUDA
    /// functions report.
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let mut buffer = Self::from_raw(allocate::<T>(device, len)?, Location::caller());
        buffer.set_zero(&device.default_stream()?)?;
        Ok(buffer)
    }

    /// A copy of a slice of the host, which may be used again when it returns; whatever uses the buffer comes after the copy.
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

    /// `len` elements that are not initialised: for kernels to write.
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit(device: &Device, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        let site = Location::caller();
        allocate::<T>(device, len).map(|raw| DeviceBuffer::from_raw(raw, site))
    }
}

fn allocate<T>(device: &Device, len: usize) -> Result<RawBuffer> {
    const { element::assert_element::<T>() };
    match range::size_bytes::<T>(len)? {
        0 => Ok(RawBuffer::empty::<T>(device)),
        bytes => backing::with_retry(device, || allocate_bytes(device, bytes)),
    }
}

/// Device memory, not initialised.
pub(crate) fn allocate_bytes(device: &Device, bytes: usize) -> Result<RawBuffer> {
    let memory = backing::device(device, bytes)?;
    let pointer = memory.0;
    Ok(RawBuffer::new(device, memory, Some(pointer), bytes))
}

#[allow(unsafe_code, reason = "the caller's promise is needed")]
impl<T: Element> DeviceBuffer<MaybeUninit<T>> {
    /// The same buffer, initialised.
    ///
    /// # Safety
    ///
    /// Work that was enqueued before writes every element.
    pub unsafe fn assume_init(self) -> DeviceBuffer<T> {
        // It keeps its label.
        DeviceBuffer::from_raw(self.raw, Location::caller())
    }
}

impl<T> DeviceBuffer<T> {
    /// A buffer over device memory that was made elsewhere.
    pub(crate) fn from_raw(raw: RawBuffer, site: &'static Location<'static>) -> Self {
        Self {
            raw: raw.labelled(Label::of::<T>("DeviceBuffer", site)),
            _elements: PhantomData,
        }
    }

    /// The address of the first element, for the device alone.
    pub fn as_device_ptr(&self) -> *const T {
        self.raw.pointer().as_ptr().cast()
    }

    /// The address of the first element, for the device alone.
    pub fn as_device_mut_ptr(&mut self) -> *mut T {
        self.raw.pointer().as_ptr().cast()
    }

    /// Waits for the buffer's own work and frees it, with the error that dropping it would swallow.
    ///
    /// # Errors
    ///
    /// What the CUDA functions report: a failure of that work as well. The memory is then leaked.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}
