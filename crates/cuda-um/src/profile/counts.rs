//! Sums of migrations and page faults.

/// Sums over all managed memory of this process since [`MigrationCounter::start`](super::MigrationCounter::start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Bytes migrated from the host to a device.
    pub bytes_to_device: u64,
    /// Bytes migrated from a device to the host.
    pub bytes_to_host: u64,
    /// Bytes migrated from one device to another.
    pub bytes_device_to_device: u64,
    /// Page faults of kernels.
    pub gpu_faults: u64,
    /// Groups in which the driver served the faults of kernels; CUPTI has one record for each.
    pub gpu_fault_groups: u64,
    /// Page faults of host code.
    pub cpu_faults: u64,
    /// Records that CUPTI dropped because its buffers were full; if it is not zero, the other numbers are too low.
    pub dropped_records: u64,
}
