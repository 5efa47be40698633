//! Sums of migrations and page faults.

use cuda_um::sys;
use sys::CUpti_ActivityUnifiedMemoryCounterKind as Kind;

/// Sums over all managed memory of this process since [`MigrationCounter::start`](super::MigrationCounter::start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

impl MigrationCounts {
    /// Adds a record to the sums.
    pub(crate) fn add(&mut self, raw: &sys::CUpti_ActivityUnifiedMemoryCounter2) {
        match raw.counterKind {
            Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD => {
                self.bytes_to_device += raw.value;
            }
            Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH => {
                self.bytes_to_host += raw.value;
            }
            Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD => {
                self.bytes_device_to_device += raw.value;
            }
            Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT => {
                self.gpu_faults += raw.value;
                self.gpu_fault_groups += 1;
            }
            Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT => {
                self.cpu_faults += 1;
            }
            _ => {}
        }
    }
}
