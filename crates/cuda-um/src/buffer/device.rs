//! Device memory.

use crate::DeviceCopy;
use crate::buffer::kind::{self, Owned};
use crate::buffer::memory::Memory;
use crate::context::device::Device;
use crate::error::Result;
use std::mem::MaybeUninit;

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
/// Dropping a buffer that a device still uses does not wait: the memory is freed later, when the work is complete ([`Runtime::reclaim`](crate::Runtime::reclaim)).
#[doc(alias = "cudaMalloc")]
pub type DeviceBuffer<T> = Memory<T, kind::Device>;

impl<T: DeviceCopy> DeviceBuffer<T> {
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
        kind::Device::allocate(device, len)
    }
}

impl<T> DeviceBuffer<T> {
    /// Returns the address of the first element. Only the device may use it.
    pub fn as_device_ptr(&self) -> *const T {
        self.raw.pointer().as_ptr().cast()
    }

    /// Returns the address of the first element. Only the device may use it.
    pub fn as_device_mut_ptr(&mut self) -> *mut T {
        self.raw.pointer().as_ptr().cast()
    }
}
