//! The kinds of a buffer's memory, as types.

use crate::buffer::memory::Memory;
use crate::context::device;
use crate::error::Result;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::default;
use std::marker::PhantomData;

/// The kind of a [`Memory`]: [`Unified`], [`Device`], [`Pinned`] or [`Registered`]. It cannot be implemented outside this crate.
pub trait Kind: sealed::Sealed + Send + Sync {
    /// The buffer's type in errors and traces.
    #[doc(hidden)]
    const NAME: &'static str;
}

/// A kind whose memory the host uses in place: all but [`Device`].
pub trait HostVisible: Kind {}

/// A kind that functions allocate, and return by value: all but [`Registered`].
// A buffer of registered memory that a function returned could be swapped with that of a scope, whose memory would outlive the scope.
pub trait Owned: Kind + Sized + 'static {
    /// The memory of such a buffer, unless a [`Placement`](crate::Placement) selects another.
    #[doc(hidden)]
    const KIND: MemoryKind;

    /// The memory that a buffer needs from a resource of the kind `_offered`.
    #[doc(hidden)]
    fn needed(_offered: MemoryKind) -> MemoryKind {
        Self::KIND
    }

    /// Allocates default memory of a device.
    #[doc(hidden)]
    #[track_caller]
    fn allocate<T>(device: &device::Device, len: usize) -> Result<Memory<T, Self>> {
        let allocate = |bytes| default::allocate(device, Self::KIND, bytes);
        Memory::made(device, len, allocate)
    }
}

/// The kind of a [`UnifiedBuffer`](crate::UnifiedBuffer).
#[derive(Debug)]
pub enum Unified {}

/// The kind of a [`DeviceBuffer`].
#[derive(Debug)]
pub enum Device {}

/// The kind of a [`PinnedBuffer`].
#[derive(Debug)]
pub enum Pinned {}

/// The kind of a [`RegisteredBuffer`](crate::RegisteredBuffer), whose memory is registered for `'s`.
// Invariant, so that the buffers of two scopes cannot be swapped.
#[derive(Debug)]
pub struct Registered<'s>(PhantomData<&'s mut &'s mut ()>);

impl Kind for Unified {
    const NAME: &'static str = "UnifiedBuffer";
}
impl Kind for Device {
    const NAME: &'static str = "DeviceBuffer";
}
impl Kind for Pinned {
    const NAME: &'static str = "PinnedBuffer";
}
impl Kind for Registered<'_> {
    const NAME: &'static str = "RegisteredBuffer";
}

impl HostVisible for Unified {}
impl HostVisible for Pinned {}
impl HostVisible for Registered<'_> {}

impl Owned for Device {
    const KIND: MemoryKind = MemoryKind::Device;
}
impl Owned for Pinned {
    const KIND: MemoryKind = MemoryKind::Pinned;
}

/// Memory of one device ([`cudaMalloc`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)). The host reaches it
/// only by copies.
///
/// Dropping a buffer in use does not wait: the memory is freed later, when the work is complete ([`Runtime::reclaim`](crate::Runtime::reclaim)).
#[doc(alias = "cudaMalloc")]
pub type DeviceBuffer<T> = Memory<T, Device>;

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

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Unified {}
    impl Sealed for super::Device {}
    impl Sealed for super::Pinned {}
    impl Sealed for super::Registered<'_> {}
}
