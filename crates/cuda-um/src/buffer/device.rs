//! Device memory.

use crate::DeviceCopy;
use crate::buffer::any::allocate_in;
use crate::context::capture;
use crate::context::device::Device;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::pool::default::DefaultMemory;
use crate::scalar::constant;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;

/// Memory of one device ([`cudaMalloc`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)). The host reaches it
/// only by copies.
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
/// buffer.write_one(0, 5)?;
/// buffer.copy_within(..2, 1)?;
/// buffer.copy_to_host_at(1, &mut back[..2])?;
/// assert_eq!(back, [5, 7, 3]);
/// buffer.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// Dropping a buffer that a device still uses does not wait: a thread of the library frees the memory when the work is complete.
#[doc(alias = "cudaMalloc")]
pub struct DeviceBuffer<T> {
    pub(crate) raw: Allocation,
    _elements: PhantomData<T>,
}

buffer_methods!([] DeviceBuffer);
zeroed_like!(DeviceBuffer, Device);

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// Allocates `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream); later uses of the buffer are ordered after them.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::TooLarge`](crate::Error::TooLarge), and the errors of the CUDA
    /// functions.
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        Self::zeroed_in(&DefaultMemory::new(device, MemoryKind::Device), len)
    }

    /// Allocates a copy of a host slice. The slice may be reused when this returns; later uses of the buffer are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        Self::from_slice_in(&DefaultMemory::new(device, MemoryKind::Device), elements)
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

    /// Allocates `len` uninitialised elements, for kernels to write.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let kernel = cuda_um::Module::load(&device, "")?.kernel("score")?;
    /// use cuda_um::{DeviceBuffer, LaunchConfig, resource::DeviceMemory};
    ///
    /// let stream = device.create_stream()?;
    /// let mut scores = DeviceBuffer::<f32>::uninit(&device, 1000)?;
    /// let mut counts = DeviceBuffer::<u32>::uninit_in(&DeviceMemory::new(&device), 1000)?;
    /// // SAFETY: the kernel takes two addresses, and writes 1000 elements at each, one a thread.
    /// unsafe { kernel.launch(&stream, LaunchConfig::linear(1000, 256), (&mut scores, &mut counts))? };
    /// // SAFETY: the kernel writes every element.
    /// let (scores, counts) = unsafe { (scores.assume_init(), counts.assume_init()) };
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit(device: &Device, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        Self::uninit_in(&DefaultMemory::new(device, MemoryKind::Device), len)
    }

    /// Allocates `len` zeros in device memory of a resource.
    ///
    /// # Ordering
    ///
    /// The same as for [`zeroed`](Self::zeroed); the zeros are ordered after earlier work that still uses the memory.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit_in`](Self::uninit_in).
    #[track_caller]
    pub fn zeroed_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let (mut buffer, stream) = (
            Self::allocate_in(resource, len)?,
            resource.device().default_stream()?,
        );
        capture::also_now(|| buffer.fill_on(constant(T::zeroed()), &stream))?;
        Ok(buffer)
    }

    /// Allocates a copy of a host slice in device memory of a resource. The slice may be reused when this returns; later uses of the buffer
    /// are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit_in`](Self::uninit_in).
    #[track_caller]
    pub fn from_slice_in(resource: &dyn MemoryResource, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, elements.len())?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Allocates `len` uninitialised elements in device memory of a resource, for kernels to write.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a resource of another kind than [`MemoryKind::Device`];
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), also above the limit of a pool; [`Error::TooLarge`](crate::Error::TooLarge); and
    /// the errors of the CUDA functions.
    #[track_caller]
    pub fn uninit_in(
        resource: &dyn MemoryResource,
        len: usize,
    ) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        DeviceBuffer::allocate_in(resource, len)
    }
}

#[allow(unsafe_code, reason = "the caller's promise is required")]
impl<T: DeviceCopy> DeviceBuffer<MaybeUninit<T>> {
    /// Converts the buffer to one whose elements are initialised.
    ///
    /// # Safety
    ///
    /// Work that was enqueued before this call writes every element.
    pub unsafe fn assume_init(self) -> DeviceBuffer<T> {
        DeviceBuffer {
            raw: self.raw,
            _elements: PhantomData,
        }
    }
}

impl<T> DeviceBuffer<T> {
    pub(crate) fn of_raw(raw: Allocation) -> Self {
        Self {
            raw,
            _elements: PhantomData,
        }
    }

    #[track_caller]
    pub(crate) fn allocate_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let mut raw = allocate_in::<T>(resource, MemoryKind::Device, "a DeviceBuffer", len)?;
        raw.set_label(Label::of::<T>("DeviceBuffer", Location::caller()));
        Ok(Self {
            raw,
            _elements: PhantomData,
        })
    }

    /// Returns the address of the first element. Only the device may use it.
    pub fn as_device_ptr(&self) -> *const T {
        self.raw.pointer().as_ptr().cast()
    }

    /// Returns the address of the first element. Only the device may use it.
    pub fn as_device_mut_ptr(&mut self) -> *mut T {
        self.raw.pointer().as_ptr().cast()
    }

    /// Waits for the buffer's own work, frees the memory, and returns the error that a drop cannot return.
    ///
    /// # Errors
    ///
    /// The errors of the CUDA functions, including a failure of that work. The memory is then leaked.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}
