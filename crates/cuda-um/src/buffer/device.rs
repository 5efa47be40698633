//! Device memory.

use crate::buffer::kind::Device;
use crate::buffer::memory::Memory;

/// Memory of one device ([`cudaMalloc`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)). The host reaches it
/// only by copies.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::DeviceBuffer;
///
/// let mut buffer = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
/// buffer.copy_from_host_at(1, &[7])?;
/// assert_eq!(buffer.to_vec()?, [1, 7, 3]);
/// buffer.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// Dropping a buffer in use does not wait: the memory is freed later, when the work is complete ([`Runtime::reclaim`](crate::Runtime::reclaim)).
#[doc(alias = "cudaMalloc")]
pub type DeviceBuffer<T> = Memory<T, Device>;
