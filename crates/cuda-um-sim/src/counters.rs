//! Counters.

/// Counts since the simulator was built or [`Sim::reset_counters`](crate::Sim::reset_counters).
///
/// Fields of migration, faults and population are about managed memory, and about system memory on devices that access it: pages that were
/// touched, prefetched or evicted, or that a launch on a device without page faults moved to the device. Accesses of system memory by the
/// host count only if they are declared ([`Sim::host_wrote`](crate::Sim::host_wrote), `Table::declared_host_access`). Fields that begin with `copied_` are about explicit copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Faults that kernels raised.
    pub gpu_faults: u64,
    /// Groups in which the driver served these faults.
    pub gpu_fault_groups: u64,
    /// Faults that the host raised.
    pub cpu_faults: u64,
    /// Bytes migrated or duplicated from the host to a device.
    pub bytes_to_device: u64,
    /// Bytes migrated or duplicated from a device to the host.
    pub bytes_to_host: u64,
    /// Bytes migrated or duplicated from one device to another.
    pub bytes_device_to_device: u64,
    /// Transfers of `bytes_to_device`: one for each contiguous piece of a 2 MiB block.
    pub transfers_to_device: u64,
    /// Transfers of `bytes_to_host`.
    pub transfers_to_host: u64,
    /// Migrated bytes that a prefetch moved.
    pub prefetched_bytes: u64,
    /// Pages of 4 KiB that were duplicated because they are read-mostly.
    pub read_duplications: u64,
    /// Pages of 4 KiB whose duplicates a write ended.
    pub collapses: u64,
    /// Pages of 4 KiB that a kernel or the host reached over the link, counted once for each access of a range.
    pub remote_accesses: u64,
    /// Bytes evicted from a device to make room.
    pub evicted_bytes: u64,
    /// Bytes that a first touch or a prefetch populated in place, without a migration.
    pub populated_bytes: u64,
    /// Bytes that explicit copies moved from the host to a device.
    pub copied_to_device: u64,
    /// Bytes that explicit copies moved from a device to the host.
    pub copied_to_host: u64,
    /// Bytes that explicit copies moved inside a device or between devices.
    pub copied_device_to_device: u64,
    /// Bytes that explicit copies moved between host memories.
    pub copied_host_to_host: u64,
    /// Bytes set by memset.
    pub set_bytes: u64,
    /// Kernels run.
    pub kernels: u64,
}
