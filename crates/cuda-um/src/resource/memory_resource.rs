//! The trait of memory resources.

use crate::context::device::Device;
use crate::context::reclaim::Which;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::Owner;

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
/// let plain = load(&ManagedMemory::new(&device), &[0.5; 1000])?;
/// assert_eq!(*pooled.host()?, *plain.host()?);
/// cuda_um::PinnedBuffer::<f32>::zeroed_in(&cuda_um::resource::PinnedMemory::new(&device), 10)?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// A resource stays live as long as its buffers need it. The trait cannot be implemented outside this crate.
#[doc(alias = "memory_resource")]
#[doc(alias = "device_memory_resource")]
pub trait MemoryResource: Allocate + Send + Sync {
    /// The device for which the resource allocates.
    fn device(&self) -> &Device;

    /// The kind of the memory.
    fn kind(&self) -> MemoryKind;
}

mod sealed {
    use crate::error::Result;
    use crate::resource::allocation::Allocation;

    /// The part of a resource that this crate calls.
    pub trait Allocate {
        /// Allocates `bytes`, which is not 0; the memory is uninitialised. If there is not enough memory, waits until memory that was
        /// dropped in use is freed, and tries once more.
        #[doc(hidden)]
        fn allocate(&self, bytes: usize) -> Result<Allocation>;
    }
}
pub(crate) use sealed::Allocate;

/// The owner of memory that calls CUDA for each allocation. A pool allocates its slabs from one.
pub(crate) trait Upstream: Owner {
    /// Allocates `bytes`, which is not 0, for [no device](Allocation::of). Never waits, so it may be called with locks held.
    fn try_allocate(&self, bytes: usize) -> Result<Allocation>;

    /// Allocates `bytes`, which is not 0. If there is not enough memory, returns what pools keep and what was dropped in use, and tries once
    /// more. Must be called without locks.
    fn allocate_alone(&self, device: &Device, bytes: usize) -> Result<Allocation> {
        let reclaim = &self.device().reclaim;
        reclaim.keep_budget();
        let released = reclaim.released();
        let outcome = self.try_allocate(bytes);
        if !matches!(outcome, Err(Error::OutOfMemory { .. })) {
            return outcome.map(|allocation| allocation.of(device));
        }
        let trimmed = device.trim_pools();
        reclaim.flush(Which::Own);
        // Memory that was released between the refusal and the wait counts, too.
        match trimmed == 0 && reclaim.released() == released {
            true => outcome,
            false => self
                .try_allocate(bytes)
                .map(|allocation| allocation.of(device)),
        }
    }
}

/// A resource whose buffers are separate allocations, each of which has the owner.
#[derive(Clone, Debug)]
pub struct Separate<O> {
    pub(crate) device: Device,
    pub(crate) owner: O,
}

impl<O: Upstream> MemoryResource for Separate<O> {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        self.owner.traits().kind
    }
}

impl<O: Upstream> Allocate for Separate<O> {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.owner.allocate_alone(&self.device, bytes)
    }
}
