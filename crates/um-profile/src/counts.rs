//! Sums of migrations and page faults.

use cuda_um_trace::{Place, RecordKind};

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
    pub(crate) fn add(&mut self, record: &RecordKind) {
        match *record {
            RecordKind::Migration {
                from, to, bytes, ..
            } => {
                *match (from, to) {
                    (Place::Host, _) => &mut self.bytes_to_device,
                    (_, Place::Host) => &mut self.bytes_to_host,
                    _ => &mut self.bytes_device_to_device,
                } += bytes;
            }
            RecordKind::GpuFault { faults, .. } => {
                self.gpu_faults += faults;
                self.gpu_fault_groups += 1;
            }
            RecordKind::CpuFault { .. } => self.cpu_faults += 1,
            _ => {}
        }
    }
}
