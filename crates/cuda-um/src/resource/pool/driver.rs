//! The driver's pools.

mod memory;

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::PoolOptions;
use crate::resource::pool::driver::memory::Driver;
use cuda_um_sys::RuntimeVersion;
use std::sync::Arc;

/// A pool of the driver (`cudaMemPoolCreate`), of device memory or, from CUDA 13.0 on, of managed memory. A clone is the same pool.
///
/// Other libraries can free its managed memory in stream order, with `cudaFreeAsync`:
/// [`UnifiedBuffer::into_raw`](crate::UnifiedBuffer::into_raw). For other purposes [`Pool`](crate::Pool) is faster, and works with every
/// version and device.
///
/// # Ordering
///
/// Allocations and frees are work on the device's [default stream](Device::default_stream), which a free orders after all uses. So **a buffer
/// that is dropped while a long kernel uses it delays that stream until the kernel is done**, and with it the buffers allocated later.
///
/// # Access
///
/// Kernels of other devices cannot access its device memory; copies can. CUDA takes advice only for memory of `cudaMallocManaged`, so that for a
/// buffer of this pool is [`HintOutcome::NotApplied`](crate::managed::HintOutcome::NotApplied). Prefetches work.
///
/// # Statistics
///
/// [`PoolStats`](crate::resource::PoolStats) has the driver's own numbers: `live_bytes` counts the memory of buffers whose free has not run,
/// and memory that was given to another owner, which `live_buffers` does not count. [`PoolOptions::slab_bytes`] and
/// [`PoolOptions::keep_bytes`] have no effect, and `slabs` is 0; [`PoolOptions::limit_bytes`] is the driver's limit
/// (`cudaMemPoolProps::maxSize`). The driver keeps what it reserves until it is [trimmed](Self::trim).
///
/// The pool ends when the last handle and the last buffer are dropped. If memory that was given to another owner is not freed by then, it stays
/// until the process ends: CUDA allows to destroy it, but driver 580 crashed after that.
#[derive(Clone)]
pub struct DriverPool {
    memory: Arc<Driver>,
}

pool_methods!(DriverPool);

impl DriverPool {
    /// Makes a pool without memory. [`PoolOptions::oversubscription`] has an effect for managed memory, and on an integrated device.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`], with the reason, for pinned and system memory; if the device has no memory pools; for managed memory before CUDA
    /// 13.0, or if a device of the runtime has no concurrent managed access; and for a limit of managed memory, or before CUDA 12.2.
    /// [`Error::InvalidArgument`] as for [`Pool::new`](crate::Pool::new); and errors of the CUDA functions.
    #[doc(alias = "cudaMemPoolCreate")]
    #[doc(alias = "cudaMemAllocationTypeManaged")]
    pub fn new(device: &Device, kind: MemoryKind, options: PoolOptions) -> Result<Self> {
        options.check()?;
        check(device, kind, &options)?;
        let memory = Arc::new(Driver::new(device, kind, options)?);
        Ok(Self { memory })
    }

    fn memory(&self) -> &Driver {
        &self.memory
    }

    fn owner(&self) -> &Device {
        &self.memory.device
    }

    fn take(&self, bytes: usize) -> Result<Allocation> {
        self.memory.allocate(bytes)
    }
}

/// The first version with managed pools.
const SINCE: RuntimeVersion = RuntimeVersion::new(13, 0);

/// The first version with limits, which managed pools do not have.
const LIMITS_SINCE: RuntimeVersion = RuntimeVersion::new(12, 2);

fn check(device: &Device, kind: MemoryKind, options: &PoolOptions) -> Result<()> {
    let (state, version) = (device.state(), device.api().version());
    let what = format!("{kind} in a pool of the driver");
    let is_managed = kind == MemoryKind::Managed;
    if is_managed {
        state.check_managed_memory()?;
        state.check_concurrent_access(|| what.clone())?;
    }
    let (needs, have) = if matches!(kind, MemoryKind::Pinned | MemoryKind::System) {
        ("managed memory or device memory", kind.to_string())
    } else if is_managed && version < SINCE {
        ("CUDA 13.0", device.api().version_text())
    } else if is_managed && state.is_gated {
        let have = "a device of this runtime that does not have it".to_owned();
        ("concurrent managed access of every device", have)
    } else if !state.capabilities.memory_pools {
        let (ordinal, name) = (device.ordinal(), device.name());
        let have = format!("device {ordinal} ({name}), which has no memory pools");
        ("memory pools", have)
    } else if options.limit_bytes.is_some() && (is_managed || version < LIMITS_SINCE) {
        let have = format!("{kind}, {}", device.api().version_text());
        (
            "device memory and CUDA 12.2 for PoolOptions::limit_bytes",
            have,
        )
    } else {
        return Ok(());
    };
    let needs = needs.to_owned();
    Err(Error::NotSupported { what, needs, have })
}
