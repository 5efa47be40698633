//! Pinned host memory.

use crate::buffer::kind::Pinned;
use crate::buffer::memory::Memory;

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
pub type PinnedBuffer<T> = Memory<T, Pinned>;
