//! A process has one profiler, so its tests run one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};
use um_profile::MigrationCounts;
use um_profile::trace::{Operation, OperationKind, RecordKind, Trace};

/// Waits until no other test of this binary uses the profiler.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sums over a trace's records.
pub fn sums(trace: &Trace) -> MigrationCounts {
    use um_profile::trace::Place::{Device, Host};
    let mut sums = MigrationCounts::default();
    sums.dropped_records = trace.dropped_records;
    for record in &trace.records {
        match record.kind {
            RecordKind::Migration {
                from, to, bytes, ..
            } => match (from, to) {
                (Host, Device(_)) => sums.bytes_to_device += bytes,
                (Device(_), Host) => sums.bytes_to_host += bytes,
                (Device(_), Device(_)) => sums.bytes_device_to_device += bytes,
                (Host, Host) => panic!("{record:?}"),
            },
            RecordKind::CpuFault { .. } => sums.cpu_faults += 1,
            RecordKind::GpuFault { faults, .. } => {
                sums.gpu_faults += faults;
                sums.gpu_fault_groups += 1;
            }
            _ => {}
        }
    }
    sums
}

/// The operations of one kind, in order.
pub fn operations(trace: &Trace, is_it: impl Fn(&OperationKind) -> bool) -> Vec<&Operation> {
    let all = trace.operations.iter();
    all.filter(|operation| is_it(&operation.kind)).collect()
}
