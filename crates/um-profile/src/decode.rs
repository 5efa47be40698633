//! Conversion of CUPTI's records to those of a trace.

use cuda_um::sys;
use cuda_um_trace::{Cause, FaultAccess, Place, Record, RecordKind};
use sys::CUpti_ActivityUnifiedMemoryCounterKind as Kind;

/// Converts a record; `None` for a kind that a trace does not have.
pub(crate) fn record(raw: &sys::CUpti_ActivityUnifiedMemoryCounter2) -> Option<Record> {
    let migration = |from, to| RecordKind::Migration {
        from,
        to,
        bytes: raw.value,
        cause: cause(raw.flags),
    };
    let (src, dst) = (Place::Device(raw.srcId), Place::Device(raw.dstId));
    let kind = match raw.counterKind {
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD => {
            migration(Place::Host, dst)
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH => {
            migration(src, Place::Host)
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD => migration(src, dst),
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT => {
            RecordKind::CpuFault {
                instruction: raw.value,
            }
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT => RecordKind::GpuFault {
            device: raw.srcId,
            faults: raw.value,
            access: access(raw.flags),
        },
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING => {
            RecordKind::Thrashing { bytes: raw.value }
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING => RecordKind::Throttling {
            place: place(raw.srcId),
        },
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP => RecordKind::RemoteMap {
            by: place(raw.srcId),
            at: place(raw.dstId),
            bytes: raw.value,
        },
        _ => return None,
    };
    // CUPTI leaves the end time of some kinds undefined.
    let has_end = matches!(
        kind,
        RecordKind::Migration { .. } | RecordKind::GpuFault { .. } | RecordKind::Throttling { .. }
    );
    Some(Record {
        kind,
        address: raw.address,
        start: raw.start,
        end: if has_end {
            raw.end.max(raw.start)
        } else {
            raw.start
        },
    })
}

/// Converts a processor that may be the CPU, for which CUPTI uses an id that no device has.
fn place(id: u32) -> Place {
    match i32::try_from(id) {
        Ok(_) => Place::Device(id),
        Err(_) => Place::Host,
    }
}

fn cause(flags: u32) -> Cause {
    use sys::CUpti_ActivityUnifiedMemoryMigrationCause as Migration;
    match Migration(flags) {
        Migration::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_USER => Cause::User,
        Migration::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE => Cause::Coherence,
        Migration::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH => Cause::Prefetch,
        Migration::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION => Cause::Eviction,
        Migration::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_ACCESS_COUNTERS => {
            Cause::AccessCounters
        }
        _ => Cause::Unknown,
    }
}

fn access(flags: u32) -> FaultAccess {
    use sys::CUpti_ActivityUnifiedMemoryAccessType as Type;
    match Type(flags) {
        Type::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ => FaultAccess::Read,
        Type::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE => FaultAccess::Write,
        Type::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_ATOMIC => FaultAccess::Atomic,
        Type::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_PREFETCH => FaultAccess::Prefetch,
        _ => FaultAccess::Unknown,
    }
}
