//! Pools of device memory.

use crate::context::device::Device;
use crate::context::tracker::{Access, Use};
use crate::error::{Error, Result};
use crate::resource::allocation::RawBuffer;
use crate::resource::backing::Backing;
use crate::resource::device::DeviceMemory;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::driver::DriverPool;
use crate::resource::pool::slabs::Slabs;
use crate::resource::pool::{PoolOptions, PoolStats};
use std::sync::Arc;

/// A pool of a device's memory. A clone is the same pool.
///
/// Its buffers are ordinary [`DeviceBuffer`]s. One that is dropped goes back to the pool at once, in use or not, and neither
/// allocating nor dropping waits:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DevicePool, PoolOptions};
///
/// let pool = DevicePool::new(&device, PoolOptions::default())?;
/// let stream = device.stream()?;
/// for round in 0..100u32 {
///     let mut scratch = pool.zeroed::<u32>(1 << 20)?;
///     scratch.fill(round, &stream)?;
/// } // may still be filled, and is reused in the next round
/// assert_eq!(pool.stats().peak_bytes, 4 << 20);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Where the memory is
///
/// In a pool of the driver's (`cudaMemPoolCreate`) where the device has them
/// ([`Capabilities::memory_pools`](crate::Capabilities::memory_pools)), which keeps its memory until it is [trimmed](Self::trim). Elsewhere in
/// slabs (`cudaMalloc`), as those of [`UnifiedPool`](crate::UnifiedPool). [`is_stream_ordered`](Self::is_stream_ordered) says which.
///
/// The driver does not say how it divides its pool: [`PoolOptions::slab_bytes`] has no meaning there; in [`PoolStats`] `live_bytes` counts
/// multiples of 256 bytes, `slabs` is 0, and all that is free counts as one piece. [`PoolOptions::limit_bytes`] holds for what buffers
/// own, and the driver gives back what it has beyond it as soon as it is free; how much it takes at a time is its own affair.
///
/// # Ordering
///
/// With slabs as for [`UnifiedPool`](crate::UnifiedPool). With the driver's pool, allocating and freeing are work on the device's
/// [default stream](Device::default_stream): a buffer's first use on another stream comes after its allocation, its free after all
/// its uses. So **a buffer that is dropped under a long kernel holds up that stream until the kernel is done**, and with it the
/// buffers allocated later.
///
/// That memory is for this device alone: by default the driver lets no other device reach its pools, and the library does not change
/// that. Copies to and from device memory of another device work on a stream of either; others need a stream of the pool's device.
///
/// # Life
///
/// The memory goes back to CUDA when the last handle and the last buffer are gone.
///
/// All methods may be called from any number of threads.
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
    /// A pool that holds nothing yet. [`PoolOptions::oversubscription`] has no meaning for it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for slabs that are not a multiple of 2 MiB, or 0; and what the CUDA functions report.
    #[doc(alias = "cudaMemPoolCreate")]
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        options.check()?;
        let driver = match device.capabilities().memory_pools {
            true => DriverPool::new(device, options).map(Some),
            false => Ok(None),
        };
        let memory = match driver {
            Ok(Some(pool)) => Memory::Driver(Arc::new(pool)),
            // Some say that they have pools, and make none (virtual GPUs).
            Ok(None) | Err(Error::NotSupported { .. }) => {
                Memory::Slabs(Slabs::new(Box::new(DeviceMemory::new(device)), options)?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { memory })
    }

    /// Whether a pool of the driver's serves, which allocates and frees in the order of the default stream; else slabs do.
    pub fn is_stream_ordered(&self) -> bool {
        matches!(self.memory, Memory::Driver(_))
    }
}

impl Memory {
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        match self {
            Self::Driver(pool) => {
                let (pointer, block, allocated) = pool.allocate(bytes)?;
                let memory = (pointer, Backing::Ordered(block));
                let raw = RawBuffer::new(pool.device(), memory, Some(pointer), bytes);
                let Use { stream, seq } = &allocated;
                raw.in_flight.record(stream, *seq, Access::Write);
                Ok(raw)
            }
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
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.memory.allocate(bytes)
    }
}
