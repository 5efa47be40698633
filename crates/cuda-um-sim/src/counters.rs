//! What is counted.

/// Counts since the simulator was built or [`Sim::reset_counters`](crate::Sim::reset_counters).
///
/// The fields without `copied_` are about managed memory only: what moved because it was touched, prefetched, evicted, or
/// because a launch on a device without page faults takes everything along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Faults that kernels raised on managed memory.
    pub gpu_faults: u64,
    /// Groups in which the driver served them.
    pub gpu_fault_groups: u64,
    /// Faults that the host raised on managed memory.
    pub cpu_faults: u64,
    /// Bytes migrated or duplicated from the host to a device.
    pub bytes_to_device: u64,
    /// Bytes migrated or duplicated from a device to the host.
    pub bytes_to_host: u64,
    /// Bytes migrated or duplicated from a device to another.
    pub bytes_device_to_device: u64,
    /// Transfers that brought `bytes_to_device`: one for each contiguous piece of a 2 MiB block.
    pub transfers_to_device: u64,
    /// Transfers that brought `bytes_to_host`.
    pub transfers_to_host: u64,
    /// Of all migrated bytes, those that a prefetch moved.
    pub prefetched_bytes: u64,
    /// Pages of 4 KiB duplicated because they are read-mostly.
    pub read_duplications: u64,
    /// Pages of 4 KiB whose duplicates a write ended.
    pub collapses: u64,
    /// Pages of 4 KiB that a kernel or the host reached over the link, once for each access of a range.
    pub remote_accesses: u64,
    /// Bytes evicted from a device to make room.
    pub evicted_bytes: u64,
    /// Bytes populated in place by a first touch or a prefetch: they moved nowhere.
    pub populated_bytes: u64,
    /// Bytes that explicit copies took from the host to a device.
    pub copied_to_device: u64,
    /// Bytes that explicit copies took from a device to the host.
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
