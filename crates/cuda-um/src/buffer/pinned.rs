//! Pinned host memory.
#![allow(unsafe_code, reason = "initialises pinned memory")]

use crate::buffer::kind::Pinned;
use crate::buffer::memory::Memory;
use crate::context::tracker::Access;
use crate::error::Result;
use crate::process_end::Calls;
use crate::resource::allocation::Allocation;

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
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaHostAlloc")]
#[doc(alias = "cudaMallocHost")]
pub type PinnedBuffer<T> = Memory<T, Pinned>;

pub(super) fn zero_on_host(raw: &mut Allocation) -> Result<()> {
    let _calls = Calls::of("zeroed")?;
    let _closed = raw.wait_for_host(&(0..raw.bytes()), Access::Write, "zeroed")?;
    // SAFETY: the memory is valid for its bytes, borrowed exclusively, and no device uses it now.
    unsafe { raw.pointer().as_ptr().write_bytes(0, raw.bytes()) };
    Ok(())
}
