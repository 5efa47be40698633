//! Sums over records.

use crate::{Cause, Place, Record, RecordKind};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use std::time::Duration;

/// Sums over records, or over parts of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes that moved from the host to a device.
    pub to_device_bytes: u64,
    /// Bytes that moved from a device to the host.
    pub to_host_bytes: u64,
    /// Bytes that moved between devices.
    pub between_devices_bytes: u64,
    /// The part of these bytes that was evicted.
    pub evicted_bytes: u64,
    /// Migrations: records of the driver, one for each piece that it copied at once.
    pub migrations: u64,
    /// Sum of the times of all migrations.
    #[serde(rename = "migrating_ns", with = "ns")]
    pub migrating: Duration,
    /// Page faults of the host.
    pub cpu_faults: u64,
    /// Page faults of devices.
    pub gpu_faults: u64,
    /// Groups in which the driver served these faults.
    pub gpu_fault_groups: u64,
    /// Time of the groups, including the migrations that they caused.
    #[serde(rename = "gpu_faulting_ns", with = "ns")]
    pub gpu_faulting: Duration,
    /// Number of thrashing records.
    pub thrashing: u64,
    /// Number of times that a processor was throttled because of thrashing.
    pub throttling: u64,
    /// Regions that were mapped and did not move.
    pub remote_maps: u64,
}

impl Traffic {
    /// Bytes in any direction.
    pub fn bytes(&self) -> u64 {
        self.to_device_bytes + self.to_host_bytes + self.between_devices_bytes
    }

    /// Adds a piece of a record: its bytes and nanoseconds, and for the first piece also the record as a whole.
    pub(crate) fn add(&mut self, record: &Record, bytes: u64, nanoseconds: u64, first: bool) {
        let one = u64::from(first);
        let time = Duration::from_nanos(nanoseconds);
        match record.kind {
            RecordKind::Migration {
                from, to, cause, ..
            } => {
                *match (from, to) {
                    (_, Place::Host) => &mut self.to_host_bytes,
                    (Place::Host, Place::Device(_)) => &mut self.to_device_bytes,
                    (Place::Device(_), Place::Device(_)) => &mut self.between_devices_bytes,
                } += bytes;
                if cause == Cause::Eviction {
                    self.evicted_bytes += bytes;
                }
                self.migrations += one;
                self.migrating += time;
            }
            RecordKind::CpuFault { .. } => self.cpu_faults += one,
            RecordKind::GpuFault { faults, .. } => {
                self.gpu_faults += one * faults;
                self.gpu_fault_groups += one;
                self.gpu_faulting += time;
            }
            RecordKind::Thrashing { .. } => self.thrashing += one,
            RecordKind::Throttling { .. } => self.throttling += one,
            RecordKind::RemoteMap { .. } => self.remote_maps += one,
        }
    }

    /// Adds a whole record.
    pub(crate) fn add_record(&mut self, record: &Record) {
        let bytes = match record.kind {
            RecordKind::Migration { bytes, .. } => bytes,
            _ => 0,
        };
        self.add(record, bytes, record.end.saturating_sub(record.start), true);
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.to_device_bytes += other.to_device_bytes;
        self.to_host_bytes += other.to_host_bytes;
        self.between_devices_bytes += other.between_devices_bytes;
        self.evicted_bytes += other.evicted_bytes;
        self.migrations += other.migrations;
        self.migrating += other.migrating;
        self.cpu_faults += other.cpu_faults;
        self.gpu_faults += other.gpu_faults;
        self.gpu_fault_groups += other.gpu_fault_groups;
        self.gpu_faulting += other.gpu_faulting;
        self.thrashing += other.thrashing;
        self.throttling += other.throttling;
        self.remote_maps += other.remote_maps;
    }
}

/// Durations as nanoseconds.
pub(crate) mod ns {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}
