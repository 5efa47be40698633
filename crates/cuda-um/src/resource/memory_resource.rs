//! The trait of memory resources.

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;

/// A source of memory for buffers: [`ManagedMemory`](crate::resource::ManagedMemory), [`DeviceMemory`](crate::resource::DeviceMemory),
/// [`PinnedMemory`](crate::resource::PinnedMemory), [`SystemMemory`](crate::resource::SystemMemory), and the pools [`Pool`](crate::Pool) and [`DriverPool`](crate::resource::DriverPool).
///
/// Each buffer type has constructors that take a resource of its kind. A function that takes `&dyn MemoryResource` leaves the choice to
/// its caller:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{MemoryKind, Pool, PoolOptions, Result, UnifiedBuffer, resource::{ManagedMemory, MemoryResource}};
///
/// fn load(memory: &dyn MemoryResource, weights: &[f32]) -> Result<UnifiedBuffer<f32>> {
///     UnifiedBuffer::from_slice_in(memory, weights)
/// }
/// let pooled = load(&Pool::new(&device, MemoryKind::Managed, PoolOptions::default())?, &[0.5; 1000])?;
/// let separate = load(&ManagedMemory::new(&device), &[0.5; 1000])?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// A resource stays live as long as its buffers need it. The trait cannot be implemented outside this crate.
#[doc(alias = "memory_resource")]
#[doc(alias = "device_memory_resource")]
pub trait MemoryResource: Send + Sync {
    /// The device for which the resource allocates.
    fn device(&self) -> &Device;

    /// The kind of the memory.
    fn kind(&self) -> MemoryKind;

    /// Allocates `bytes`, which is not 0; the memory is uninitialised. If there is not enough memory, waits until memory that was dropped in use
    /// is freed, and tries once more.
    // Its result has no name outside of this crate, so that there it cannot be implemented.
    #[doc(hidden)]
    fn allocate(&self, bytes: usize) -> Result<Allocation>;
}
