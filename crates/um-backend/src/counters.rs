//! Migrations and page faults of managed memory.

/// What managed memory cost so far: [`CudaBackend::migration_counters`](crate::CudaBackend::migration_counters).
///
/// Explicit copies are not migrations and do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MigrationCounters {
    /// Bytes migrated from the host to a device.
    pub bytes_to_device: u64,
    /// Bytes migrated from a device to the host.
    pub bytes_to_host: u64,
    /// Bytes migrated from one device to another.
    pub bytes_device_to_device: u64,
    /// Page faults that kernels raised.
    pub device_faults: u64,
    /// Groups in which the driver served them.
    pub device_fault_groups: u64,
    /// Page faults that the CPU raised.
    pub host_faults: u64,
}

impl MigrationCounters {
    /// What came after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bytes_to_device: self.bytes_to_device.saturating_sub(earlier.bytes_to_device),
            bytes_to_host: self.bytes_to_host.saturating_sub(earlier.bytes_to_host),
            bytes_device_to_device: self
                .bytes_device_to_device
                .saturating_sub(earlier.bytes_device_to_device),
            device_faults: self.device_faults.saturating_sub(earlier.device_faults),
            device_fault_groups: self
                .device_fault_groups
                .saturating_sub(earlier.device_fault_groups),
            host_faults: self.host_faults.saturating_sub(earlier.host_faults),
        }
    }
}

#[cfg(feature = "sim")]
impl From<cuda_um_sim::Counters> for MigrationCounters {
    fn from(counters: cuda_um_sim::Counters) -> Self {
        Self {
            bytes_to_device: counters.bytes_to_device,
            bytes_to_host: counters.bytes_to_host,
            bytes_device_to_device: counters.bytes_device_to_device,
            device_faults: counters.gpu_faults,
            device_fault_groups: counters.gpu_fault_groups,
            host_faults: counters.cpu_faults,
        }
    }
}

#[cfg(feature = "profile")]
impl From<cuda_um::profile::MigrationCounts> for MigrationCounters {
    fn from(counts: cuda_um::profile::MigrationCounts) -> Self {
        Self {
            bytes_to_device: counts.bytes_to_device,
            bytes_to_host: counts.bytes_to_host,
            bytes_device_to_device: counts.bytes_device_to_device,
            device_faults: counts.gpu_faults,
            device_fault_groups: counts.gpu_fault_groups,
            host_faults: counts.cpu_faults,
        }
    }
}
