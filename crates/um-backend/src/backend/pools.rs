//! The pools of a backend.

use cuda_um::{MemoryKind, Oversubscription, Pool, PoolOptions, resource::PoolStats};

use crate::config::CudaBackendConfig;
use crate::device::CudaDevice;
use crate::error::Result;

/// A pool for each kind of memory for which the configuration has options.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    pub(super) unified: Option<Pool>,
    pub(super) device: Option<Pool>,
    pub(super) pinned: Option<Pool>,
}

impl Pools {
    pub(super) fn new(device: &CudaDevice, config: &CudaBackendConfig) -> Result<Self> {
        // If managed memory is poor, unified buffers have mapped memory, which the pool does not have.
        let has_managed = device.managed_memory_obstacle().is_none();
        let allowed = |options: PoolOptions| match config.oversubscription {
            Oversubscription::Allowed => options.oversubscription(Oversubscription::Allowed),
            Oversubscription::Refused => options,
        };
        let unified = config.unified_pool.filter(|_| has_managed).map(allowed);
        Ok(Self {
            unified: unified
                .map(|options| Pool::new(device, MemoryKind::Managed, options))
                .transpose()?,
            device: config
                .device_pool
                .map(|options| Pool::new(device, MemoryKind::Device, options))
                .transpose()?,
            pinned: config
                .pinned_pool
                .map(|options| Pool::new(device, MemoryKind::Pinned, options))
                .transpose()?,
        })
    }

    pub(super) fn stats(&self, kind: MemoryKind) -> Option<PoolStats> {
        match kind {
            MemoryKind::Managed => self.unified.as_ref().map(Pool::stats),
            MemoryKind::Device => self.device.as_ref().map(Pool::stats),
            MemoryKind::Pinned => self.pinned.as_ref().map(Pool::stats),
            _ => None,
        }
    }

    pub(super) fn trim(&self) -> usize {
        self.unified.as_ref().map_or(0, Pool::trim)
            + self.device.as_ref().map_or(0, Pool::trim)
            + self.pinned.as_ref().map_or(0, Pool::trim)
    }
}
