//! Pools: allocation without a CUDA call for each buffer.

#[macro_use]
mod methods;
pub(crate) mod advised;
mod class;
pub(crate) mod default;
mod driver;
mod heap;
#[cfg(all(test, not(cuda_um_loom)))]
mod heap_properties;
#[cfg(all(test, cuda_um_loom))]
#[path = "../../tests/loom/pool/mod.rs"]
mod models;
mod shard;
mod shared;
mod slabs;

pub use crate::resource::pool::driver::DriverPool;
pub use crate::resource::pool::slabs::Pool;

use crate::error::{Error, Result};
use crate::resource::kind::Oversubscription;
use crate::resource::owner::Traits;
use crate::resource::pool::class::CHUNK;

/// Options of a [`Pool`] or a [`DriverPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    slab_bytes: usize,
    limit_bytes: Option<usize>,
    keep_bytes: Option<usize>,
    oversubscription: Oversubscription,
    /// True for a pool of a device's own.
    is_default: bool,
}

/// Statistics of a pool.
///
/// If other threads allocate and free during the call, the numbers may differ by their changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes of the blocks that buffers own: the buffers' sizes, rounded up.
    pub live_bytes: usize,
    /// The maximum of `live_bytes` so far. If several threads allocate, it may be up to 16 MiB too high.
    pub peak_bytes: usize,
    /// Bytes of all slabs.
    pub reserved_bytes: usize,
    /// Bytes of slabs that no buffer owns.
    pub free_bytes: usize,
    /// The number of live buffers.
    pub live_buffers: usize,
    /// The number of slabs, each an allocation from CUDA.
    pub slabs: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            slab_bytes: 16 * CHUNK,
            limit_bytes: None,
            keep_bytes: None,
            oversubscription: Oversubscription::default(),
            is_default: false,
        }
    }
}

impl PoolOptions {
    /// Sets the size of a slab, in bytes, a multiple of 2 MiB. The default is 32 MiB.
    #[must_use]
    pub fn slab_bytes(mut self, bytes: usize) -> Self {
        self.slab_bytes = bytes;
        self
    }

    /// Sets the limit for the total size of the slabs, in bytes. The default is no limit.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.limit_bytes = bytes.into();
        self
    }

    /// Sets how many free bytes the pool keeps in slabs of their own, which buffers above half a slab have. When such a buffer is dropped and
    /// its slab would exceed this, the pool returns slabs to CUDA, the largest first. The default is no bound.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.keep_bytes = bytes.into();
        self
    }

    /// Sets if managed memory may exceed the memory of the device, and device memory that of an integrated device. The default is
    /// [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.oversubscription = oversubscription;
        self
    }

    fn check(&self) -> Result<()> {
        let slab_bytes = self.slab_bytes;
        if slab_bytes == 0
            || !slab_bytes.is_multiple_of(CHUNK)
            || isize::try_from(slab_bytes).is_err()
        {
            return Err(Error::InvalidArgument {
                what: "the size of a pool's slabs",
                value: format!("{slab_bytes} bytes"),
                reason: format!(
                    "it is a multiple of 2 MiB, above 0 and not beyond {} bytes",
                    isize::MAX
                ),
            });
        }
        Ok(())
    }
}

/// The error for an allocation that exceeds the headroom below the pool's limit, `room` bytes.
fn beyond_limit(
    call: &'static str,
    memory: &Traits,
    options: &PoolOptions,
    (requested_bytes, room): (usize, usize),
) -> Error {
    let limit = options.limit_bytes.unwrap_or(usize::MAX);
    Error::OutOfMemory {
        call,
        subject: format!(
            "{} of a pool on device {}, not allocated: the pool's limit of {limit} bytes (PoolOptions::limit_bytes) leaves \
             {room} beside what is in use",
            memory.kind, memory.device.ordinal
        ),
        requested_bytes,
        free_bytes: room,
        total_bytes: limit,
    }
}
