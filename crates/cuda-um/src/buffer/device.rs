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
/// let mut back = [0; 3];
/// buffer.copy_to_host(&mut back)?;
/// assert_eq!(back, [1, 7, 3]);
/// buffer.write_one(0, 5)?;
/// buffer.copy_within_on(..2, 1, &device.default_stream()?)?;
/// buffer.copy_to_host_at(1, &mut back[..2])?;
/// assert_eq!(back, [5, 7, 3]);
/// buffer.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// Dropping a buffer that a device still uses does not wait: the memory is freed later, when the work is complete ([`Runtime::reclaim`](crate::Runtime::reclaim)).
#[doc(alias = "cudaMalloc")]
pub type DeviceBuffer<T> = Memory<T, Device>;
