//! The driver's pools of managed memory.

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::PoolOptions;
use crate::resource::pool::driver::DriverPool;
use cuda_um_sys::RuntimeVersion;
use std::sync::Arc;

/// The driver's pool of managed memory (CUDA 13.0 and newer). A clone is the same pool.
///
/// Other libraries can free its memory in stream order, with `cudaFreeAsync`: [`UnifiedBuffer::into_raw`](crate::UnifiedBuffer::into_raw).
/// For other purposes [`UnifiedPool`](crate::UnifiedPool) is faster, and works with every version.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{ErrorKind, ManagedPool, PoolOptions, UnifiedBuffer};
///
/// let pool = match ManagedPool::new(&device, PoolOptions::default()) {
///     Ok(pool) => pool,
///     Err(error) if error.kind() == ErrorKind::NotSupported => return Ok(()), // it tells the reason
///     Err(error) => return Err(error),
/// };
/// let buffer = UnifiedBuffer::from_slice_in(&pool, &[1.0f32, 2.0])?;
/// assert_eq!(buffer.host()?[1], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// Allocations and frees are work on the device's [default stream](Device::default_stream), as in a stream-ordered
/// [`DevicePool`](crate::DevicePool).
///
/// # Advice
///
/// CUDA takes advice only for memory of `cudaMallocManaged`: [`UnifiedBuffer::advise`](crate::UnifiedBuffer::advise) returns
/// [`Error::NotSupported`] for a buffer of this pool. Prefetches work.
///
/// # Statistics
///
/// As for a stream-ordered [`DevicePool`](crate::DevicePool); memory that was given to another owner does not count.
/// [`PoolOptions::slab_bytes`] has no effect.
///
/// # Lifetime
///
/// The memory returns to CUDA when the last handle and the last buffer are dropped. If memory that was given to another owner is not freed
/// by then, the driver's pool stays until the process ends: CUDA allows to destroy it, but driver 580 crashed after that.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct ManagedPool {
    memory: Arc<DriverPool>,
}

pool_methods!(ManagedPool);

/// The first version with managed pools.
const SINCE: RuntimeVersion = RuntimeVersion::new(13, 0);

impl ManagedPool {
    /// Makes a pool without memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`], with the reason, before CUDA 13.0, and if a device of the runtime has no concurrent managed access or no
    /// memory pools; [`Error::InvalidArgument`] as for [`UnifiedPool::new`](crate::UnifiedPool::new); and errors of the CUDA functions.
    #[doc(alias = "cudaMemPoolCreate")]
    #[doc(alias = "cudaMemAllocationTypeManaged")]
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        device.api().origin.check("cudaMemPoolCreate")?;
        options.check()?;
        check(device)?;
        Ok(Self {
            memory: Arc::new(DriverPool::new(device, MemoryKind::Managed, options)?),
        })
    }
}

/// Refuses a runtime or a device without managed pools.
fn check(device: &Device) -> Result<()> {
    let state = device.state();
    let what = || "a managed pool of the driver".to_owned();
    state.check_managed_memory()?;
    state.check_concurrent_access(what)?;
    let have = if device.api().version() < SINCE {
        device.api().version_text()
    } else if state.is_gated {
        "a device of this runtime that does not have it".to_owned()
    } else if !state.capabilities.memory_pools {
        let (ordinal, name) = (device.ordinal(), device.name());
        format!("device {ordinal} ({name}), which has no memory pools")
    } else {
        return Ok(());
    };
    Err(Error::NotSupported {
        what: what(),
        needs: format!("CUDA {SINCE}, memory pools, and concurrent managed access of every device"),
        have,
    })
}

impl DriverPool {
    fn name(&self) -> &'static str {
        "managed memory of the driver's pool"
    }
}

impl MemoryResource for ManagedPool {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Managed
    }
}

impl Allocate for ManagedPool {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.memory.allocate(bytes)
    }
}
