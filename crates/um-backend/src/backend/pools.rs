//! The pools of a backend.

use cuda_um::{
    DevicePool, MemoryKind, Oversubscription, PinnedPool, PoolOptions, PoolStats, UnifiedPool,
};

use crate::config::CudaBackendConfig;
use crate::device::CudaDevice;
use crate::error::Result;

/// A pool for each kind of memory for which the configuration has options.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    pub(super) unified: Option<UnifiedPool>,
    pub(super) device: Option<DevicePool>,
    pub(super) pinned: Option<PinnedPool>,
}

impl Pools {
    pub(super) fn new(device: &CudaDevice, config: &CudaBackendConfig) -> Result<Self> {
        // If managed memory is poor, unified buffers have mapped memory, which the pool does not have.
        let has_managed = device.unified_memory_obstacle().is_none();
        let allowed = |options: PoolOptions| match config.oversubscription {
            Oversubscription::Allowed => options.oversubscription(Oversubscription::Allowed),
            Oversubscription::Refused => options,
        };
        let unified = config.unified_pool.filter(|_| has_managed).map(allowed);
        let device = device.as_cuda_um();
        Ok(Self {
            unified: unified
                .map(|options| UnifiedPool::new(device, options))
                .transpose()?,
            device: config
                .device_pool
                .map(|options| DevicePool::new(device, options))
                .transpose()?,
            pinned: config
                .pinned_pool
                .map(|options| PinnedPool::new(device, options))
                .transpose()?,
        })
    }

    pub(super) fn stats(&self, kind: MemoryKind) -> Option<PoolStats> {
        match kind {
            MemoryKind::Managed => self.unified.as_ref().map(UnifiedPool::stats),
            MemoryKind::Device => self.device.as_ref().map(DevicePool::stats),
            MemoryKind::Pinned => self.pinned.as_ref().map(PinnedPool::stats),
            _ => None,
        }
    }

    pub(super) fn trim(&self) -> usize {
        self.unified.as_ref().map_or(0, UnifiedPool::trim)
            + self.device.as_ref().map_or(0, DevicePool::trim)
            + self.pinned.as_ref().map_or(0, PinnedPool::trim)
    }
}
