//! Activity records in the layouts of the simulated CUPTI.

use std::mem::size_of;
use std::time::Duration;

use cuda_um_sys::{self as sys, CUpti_ActivityKind as Kind};

use crate::engine::{Cause, MapCause, Processor, Record, What};
use crate::preset::CudaVersion;

type CounterKind = sys::CUpti_ActivityUnifiedMemoryCounterKind;
type MigrationCause = sys::CUpti_ActivityUnifiedMemoryMigrationCause;
type RemoteMapCause = sys::CUpti_ActivityUnifiedMemoryRemoteMapCause;
type AccessType = sys::CUpti_ActivityUnifiedMemoryAccessType;

/// CUPTI's number for the host: `cudaCpuDeviceId`.
const HOST_ID: u32 = u32::MAX;

/// The layouts of a CUDA version.
#[derive(Clone, Copy)]
pub(super) struct Layout(pub(super) CudaVersion);

impl Layout {
    pub(super) fn bytes_of(self, record: &Record) -> usize {
        self.bytes_of_kind(match record.what {
            What::Kernel { .. } => Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL.0,
            _ => Kind::CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER.0,
        })
    }

    pub(super) fn bytes_of_kind(self, kind: u32) -> usize {
        let kernel = kind == Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL.0;
        match (kernel, self.0) {
            (false, CudaVersion::V11_8 | CudaVersion::V12_2) => {
                size_of::<sys::CUpti_ActivityUnifiedMemoryCounter2>()
            }
            (false, _) => size_of::<sys::CUpti_ActivityUnifiedMemoryCounter3>(),
            // `CUpti_ActivityKernel8`, 9 and 10.
            (true, CudaVersion::V11_8) => 200,
            (true, CudaVersion::V12_2 | CudaVersion::V12_9) => 208,
            (true, CudaVersion::V13_0 | CudaVersion::V13_4) => 216,
        }
    }

    /// Writes a record.
    ///
    /// # Safety
    /// `to` is writable for `bytes_of(record)` bytes and aligned to 8.
    pub(super) unsafe fn write(self, record: &Record, to: *mut u8) {
        // SAFETY: the caller's promise; every record's prefix is no longer than the record.
        unsafe {
            to.write_bytes(0, self.bytes_of(record));
            match record.what {
                What::Kernel { .. } => to
                    .cast::<sys::CUpti_ActivityKernelPrefix>()
                    .write(kernel(record)),
                _ => to
                    .cast::<sys::CUpti_ActivityUnifiedMemoryCounter2>()
                    .write(counter(record)),
            }
        }
    }
}

/// CUPTI's number for a processor: a device's ordinal.
fn id(processor: Processor) -> u32 {
    processor
        .ordinal()
        .map_or(HOST_ID, |ordinal| ordinal as u32)
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// The fields of a counter that depend on the kind of its record.
struct CounterFields {
    kind: CounterKind,
    value: u64,
    source: u32,
    target: u32,
    flags: u32,
}

impl CounterFields {
    fn of(what: &What) -> CounterFields {
        match *what {
            What::Transfer {
                from,
                to,
                bytes,
                cause,
            } => CounterFields {
                kind: transfer_kind(from, to),
                value: bytes,
                source: id(from),
                target: id(to),
                flags: migration_cause(cause).0,
            },
            // CUPTI's value is the address of the instruction, which the simulator does not give.
            What::CpuFault => CounterFields {
                kind: CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
                value: 0,
                source: HOST_ID,
                target: 0,
                flags: 0,
            },
            What::GpuFaults {
                device,
                faults,
                write,
            } => CounterFields {
                kind: CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
                value: u64::from(faults),
                source: device as u32,
                target: 0,
                flags: access_type(write).0,
            },
            What::RemoteMap {
                by,
                at,
                bytes,
                cause,
            } => CounterFields {
                kind: CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP,
                value: bytes,
                source: id(by),
                target: id(at),
                flags: remote_map_cause(cause).0,
            },
            What::Kernel { .. } => CounterFields {
                kind: sys::CUpti_ActivityUnifiedMemoryCounterKind(0),
                value: 0,
                source: 0,
                target: 0,
                flags: 0,
            },
        }
    }
}

fn transfer_kind(from: Processor, to: Processor) -> CounterKind {
    match (from.ordinal(), to.ordinal()) {
        (None, _) => CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
        (Some(_), None) => {
            CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH
        }
        _ => CounterKind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
    }
}

fn migration_cause(cause: Cause) -> MigrationCause {
    match cause {
        Cause::User => MigrationCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_USER,
        Cause::Coherence => MigrationCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE,
        Cause::Density => MigrationCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH,
        Cause::Eviction => MigrationCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION,
    }
}

fn remote_map_cause(cause: MapCause) -> RemoteMapCause {
    match cause {
        MapCause::Coherence => {
            RemoteMapCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_COHERENCE
        }
        MapCause::Policy => RemoteMapCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_POLICY,
        MapCause::OutOfMemory => {
            RemoteMapCause::CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_OUT_OF_MEMORY
        }
    }
}

fn access_type(write: bool) -> AccessType {
    match write {
        true => AccessType::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE,
        false => AccessType::CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ,
    }
}

fn counter(record: &Record) -> sys::CUpti_ActivityUnifiedMemoryCounter2 {
    let fields = CounterFields::of(&record.what);
    sys::CUpti_ActivityUnifiedMemoryCounter2 {
        kind: Kind::CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER,
        counterKind: fields.kind,
        value: fields.value,
        start: nanoseconds(record.start),
        end: nanoseconds(record.end),
        address: record.address as u64,
        srcId: fields.source,
        dstId: fields.target,
        streamId: 0,
        processId: std::process::id(),
        flags: fields.flags,
        pad: 0,
    }
}

fn kernel(record: &Record) -> sys::CUpti_ActivityKernelPrefix {
    let (name, device, stream, number) = match record.what {
        What::Kernel {
            name,
            device,
            stream,
            number,
        } => (name.as_ptr(), device, stream, number),
        _ => (std::ptr::null(), 0, 0, 0),
    };
    sys::CUpti_ActivityKernelPrefix {
        kind: Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        cacheConfig: 0,
        sharedMemoryConfig: 0,
        registersPerThread: 0,
        partitionedGlobalCacheRequested: 0,
        partitionedGlobalCacheExecuted: 0,
        start: nanoseconds(record.start),
        end: nanoseconds(record.end),
        completed: nanoseconds(record.end),
        deviceId: device as u32,
        contextId: device as u32 + 1,
        streamId: stream as u32,
        gridX: 0,
        gridY: 0,
        gridZ: 0,
        blockX: 0,
        blockY: 0,
        blockZ: 0,
        staticSharedMemory: 0,
        dynamicSharedMemory: 0,
        localMemoryPerThread: 0,
        localMemoryTotal: 0,
        correlationId: number,
        gridId: i64::from(number),
        name,
    }
}
