//! Pinned host memory.
#![allow(
    unsafe_code,
    reason = "initialises pinned memory, and looks up its address on the device"
)]

use crate::DeviceCopy;
use crate::buffer::any::allocate_in;
use crate::context::device::Device;
use crate::context::tracker::Access;
use crate::error::Result;
use crate::label::Label;
use crate::process_end::Calls;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::pool::default::DefaultMemory;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;

/// Page-locked host memory ([`cudaHostAlloc`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)). Copies from and
/// to it are fast, and kernels use it in place (zero-copy) if the device can map it.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, PinnedBuffer};
///
/// let stream = device.create_stream()?;
/// let on_device = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
/// let mut results = PinnedBuffer::<u32>::zeroed(&device, 3)?;
/// stream.copy(&on_device, &mut results)?;
/// assert_eq!(*results.host()?, [1, 2, 3]); // waits only for the copy
/// results.try_host_mut()?[0] = 9; // an error where it would have to wait
/// assert_eq!(results.view(..1)?.to_vec()?, [9]);
/// results.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaHostAlloc")]
#[doc(alias = "cudaMallocHost")]
pub struct PinnedBuffer<T> {
    pub(crate) raw: Allocation,
    _elements: PhantomData<T>,
}

buffer_methods!([] PinnedBuffer);
zeroed_like!(PinnedBuffer, Pinned);
host_methods!([] PinnedBuffer);

impl<T: DeviceCopy> PinnedBuffer<T> {
    /// Allocates `len` zeros.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::TooLarge`](crate::Error::TooLarge), and the errors of the CUDA
    /// functions.
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        Self::zeroed_in(&DefaultMemory::new(device, MemoryKind::Pinned), len)
    }

    /// Allocates `len` uninitialised elements, for copies and kernels to write.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit(device: &Device, len: usize) -> Result<PinnedBuffer<MaybeUninit<T>>> {
        PinnedBuffer::allocate_in(&DefaultMemory::new(device, MemoryKind::Pinned), len)
    }

    /// Allocates a copy of a slice.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        Self::from_slice_in(&DefaultMemory::new(device, MemoryKind::Pinned), elements)
    }

    /// Allocates a copy of a vector, as [`from_slice`](Self::from_slice) does, and frees the vector.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_vec(device: &Device, elements: Vec<T>) -> Result<Self> {
        Self::from_slice(device, &elements)
    }

    /// Allocates `len` zeros in pinned memory of a resource. The host writes them.
    ///
    /// # Ordering
    ///
    /// Waits for work of earlier owners that still uses the memory. The zeros are written when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a resource of another kind than [`MemoryKind::Pinned`];
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), also above the limit of a pool; [`Error::TooLarge`](crate::Error::TooLarge); and
    /// the errors of the CUDA functions, including a failure of that work.
    #[track_caller]
    pub fn zeroed_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, len)?;
        buffer.zero_on_host()?;
        Ok(buffer)
    }

    /// Allocates a copy of a slice in pinned memory of a resource.
    ///
    /// # Ordering
    ///
    /// The same as for [`zeroed_in`](Self::zeroed_in).
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    #[track_caller]
    pub fn from_slice_in(resource: &dyn MemoryResource, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, elements.len())?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Waits for work that uses the memory, then writes zeros on the host.
    fn zero_on_host(&mut self) -> Result<()> {
        let _calls = Calls::of("zeroed")?;
        let _closed = self
            .raw
            .wait_for_host(&(0..self.raw.bytes()), Access::Write, "zeroed")?;
        // SAFETY: the memory is valid for its bytes, borrowed exclusively, and no device uses it now.
        unsafe { self.raw.pointer().as_ptr().write_bytes(0, self.raw.bytes()) };
        Ok(())
    }
}

impl<T: DeviceCopy> PinnedBuffer<MaybeUninit<T>> {
    /// Converts the buffer to one whose elements are initialised.
    ///
    /// # Safety
    ///
    /// Every element is written before anything reads it.
    pub unsafe fn assume_init(self) -> PinnedBuffer<T> {
        PinnedBuffer::of_raw(self.raw)
    }
}

impl<T> PinnedBuffer<T> {
    pub(crate) fn of_raw(raw: Allocation) -> Self {
        Self {
            raw,
            _elements: PhantomData,
        }
    }

    #[track_caller]
    fn allocate_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let mut raw = allocate_in::<T>(resource, MemoryKind::Pinned, "a PinnedBuffer", len)?;
        raw.set_label(Label::of::<T>("PinnedBuffer", Location::caller()));
        Ok(Self {
            raw,
            _elements: PhantomData,
        })
    }

    /// Returns the address of the first element for kernels; `None` if the device cannot map host memory.
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn device_ptr(&self) -> Option<*const T> {
        self.raw
            .device_pointer()
            .map(|pointer| pointer.as_ptr().cast_const().cast())
    }

    /// Waits for the buffer's own work, frees the memory, and returns the error that a drop cannot return.
    ///
    /// # Errors
    ///
    /// The errors of the CUDA functions, including a failure of that work. The memory is then leaked.
    #[doc(alias = "cudaFreeHost")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}
