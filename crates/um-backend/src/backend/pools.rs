//! The pools of a backend.

use cuda_um::{MemoryKind, Oversubscription, Pool, PoolOptions, resource::MemoryResource};

use crate::config::CudaBackendConfig;
use crate::device::CudaDevice;
use crate::error::Result;

/// A pool for each kind of memory for which the configuration has options.
#[derive(Debug, Clone)]
pub(super) struct Pools(Vec<Pool>);

impl Pools {
    pub(super) fn new(device: &CudaDevice, config: &CudaBackendConfig) -> Result<Self> {
        // If managed memory is poor, unified buffers have mapped memory, which the pool does not have.
        let has_managed = device.managed_memory_obstacle().is_none();
        let allowed = |options: PoolOptions| match config.oversubscription {
            Oversubscription::Allowed => options.oversubscription(Oversubscription::Allowed),
            _ => options,
        };
        let unified = config.unified_pool.filter(|_| has_managed).map(allowed);
        let wanted = [
            (MemoryKind::Managed, unified),
            (MemoryKind::Device, config.device_pool.map(allowed)),
            (MemoryKind::Pinned, config.pinned_pool),
        ];
        let pools = wanted
            .into_iter()
            .filter_map(|(kind, options)| Some(Pool::new(device, kind, options?)));
        Ok(Self(pools.collect::<Result<_>>()?))
    }

    pub(super) fn of(&self, kind: MemoryKind) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.kind() == kind)
    }

    pub(super) fn trim(&self) -> usize {
        self.0.iter().map(Pool::trim).sum()
    }
}
