//! Pools of device memory.

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::device::DeviceMemory;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::driver::DriverPool;
use crate::resource::pool::slabs::Slabs;
use crate::resource::pool::{PoolOptions, PoolStats};
use std::sync::Arc;

/// A pool of a device's memory. A clone is the same pool.
///
/// Its buffers are ordinary [`DeviceBuffer`](crate::DeviceBuffer)s. A buffer that is dropped returns to the pool at once, in use or not. Neither allocating nor
/// dropping waits:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DevicePool, PoolOptions};
///
/// let pool = DevicePool::new(&device, PoolOptions::default())?;
/// let stream = device.stream()?;
/// for round in 0..100u32 {
///     let mut scratch = pool.zeroed::<u32>(1 << 20)?;
///     scratch.fill_on(round, &stream)?;
/// } // may still be filled, and is reused in the next round
/// assert_eq!(pool.stats().peak_bytes, 4 << 20);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Location of the memory
///
/// If the device supports driver pools ([`Capabilities::memory_pools`](crate::Capabilities::memory_pools)), the memory is in one
/// (`cudaMemPoolCreate`), which keeps its memory until it is [trimmed](Self::trim). Otherwise it is in slabs (`cudaMalloc`), as in
/// [`UnifiedPool`](crate::UnifiedPool). [`is_stream_ordered`](Self::is_stream_ordered) tells which.
///
/// The driver does not report how it divides its pool. [`PoolOptions::slab_bytes`] therefore has no effect; in [`PoolStats`], `live_bytes`
/// counts multiples of 256 bytes, `slabs` is 0, and all free memory counts as one block. [`PoolOptions::limit_bytes`] limits the bytes that
/// buffers own, and the driver releases memory beyond the limit as soon as it is free. The driver chooses how much it reserves at a time.
///
/// # Ordering
///
/// With slabs, as for [`UnifiedPool`](crate::UnifiedPool). With the driver's pool, allocations and frees are work on the device's
/// [default stream](Device::default_stream): a buffer's first use on another stream runs after its allocation, its free after all its
/// uses. So **a buffer that is dropped while a long kernel uses it delays that stream until the kernel is done**, and with it the buffers
/// allocated later.
///
/// Only this device can access the memory: by default the driver lets no other device access its pools, and the library does not change
/// that. A copy to or from device memory of another device works on a stream of either device; other work needs a stream of the pool's
/// device.
///
/// # Lifetime
///
/// The memory returns to CUDA when the last handle and the last buffer are dropped.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct DevicePool {
    memory: Memory,
}

#[derive(Clone)]
enum Memory {
    Driver(Arc<DriverPool>),
    Slabs(Slabs),
}

pool_methods!(DevicePool);

impl DevicePool {
    pub(super) fn of_slabs(memory: Slabs) -> Self {
        Self {
            memory: Memory::Slabs(memory),
        }
    }

    /// Makes a pool without memory. [`PoolOptions::oversubscription`] has no effect.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the slab size is 0 or not a multiple of 2 MiB; and errors of the CUDA functions.
    #[doc(alias = "cudaMemPoolCreate")]
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        options.check()?;
        let driver = match device.capabilities().memory_pools {
            true => DriverPool::new(device, MemoryKind::Device, options).map(Some),
            false => Ok(None),
        };
        let memory = match driver {
            Ok(Some(pool)) => Memory::Driver(Arc::new(pool)),
            // Some devices report pools but cannot create one (virtual GPUs).
            Ok(None) | Err(Error::NotSupported { .. }) => {
                Memory::Slabs(Slabs::new(Box::new(DeviceMemory::new(device)), options)?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { memory })
    }

    /// Returns true for a driver pool, which allocates and frees in the order of the default stream; false for slabs.
    pub fn is_stream_ordered(&self) -> bool {
        matches!(self.memory, Memory::Driver(_))
    }
}

impl Memory {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        match self {
            Self::Driver(pool) => pool.allocate(bytes),
            Self::Slabs(slabs) => slabs.allocate(bytes),
        }
    }

    fn trim(&self) -> usize {
        match self {
            Self::Driver(pool) => pool.trim(),
            Self::Slabs(slabs) => slabs.trim(),
        }
    }

    fn stats(&self) -> PoolStats {
        match self {
            Self::Driver(pool) => pool.stats(),
            Self::Slabs(slabs) => slabs.stats(),
        }
    }

    fn device(&self) -> &Device {
        match self {
            Self::Driver(pool) => pool.device(),
            Self::Slabs(slabs) => slabs.device(),
        }
    }

    fn options(&self) -> &PoolOptions {
        match self {
            Self::Driver(pool) => pool.options(),
            Self::Slabs(slabs) => slabs.options(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Driver(_) => "device memory of the driver's pool",
            Self::Slabs(slabs) => slabs.name(),
        }
    }
}

impl MemoryResource for DevicePool {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }
}

impl Allocate for DevicePool {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.memory.allocate(bytes)
    }
}
