//! CUPTI's records, configuration and numbers, as declared in `cupti_activity.h`: `tests/real_libraries.rs` compares them with
//! NVIDIA's headers.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "C names"
)]

use std::ffi::{c_char, c_void};

/// C enumerations, as newtypes over integers: a later version may return other numbers.
macro_rules! numbers {
    ($($(#[$doc:meta])* $type:ident { $($name:ident = $value:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash)]
            pub struct $type(pub u32);

            impl $type {
                $(pub const $name: Self = Self($value);)*

                /// The C name; `None` for a number of a later version.
                pub fn name(self) -> Option<&'static str> {
                    match self.0 {
                        $($value => Some(stringify!($name)),)*
                        _ => None,
                    }
                }
            }

            impl std::fmt::Debug for $type {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    match self.name() {
                        Some(name) => f.write_str(name),
                        None => write!(f, "{}({})", stringify!($type), self.0),
                    }
                }
            }
        )*

        /// Every number with its C name, for the comparison with the headers.
        #[doc(hidden)]
        pub const NUMBERS: &[(&str, u32)] = &[$($((stringify!($name), $value),)*)*];
    };
}

numbers! {
    /// The result of a CUPTI function.
    CUptiResult {
        CUPTI_SUCCESS = 0,
        CUPTI_ERROR_INVALID_PARAMETER = 1,
        CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
        CUPTI_ERROR_NOT_INITIALIZED = 15,
        CUPTI_ERROR_INVALID_KIND = 21,
        CUPTI_ERROR_NOT_SUPPORTED = 27,
        CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED = 28,
        CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
        CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
        CUPTI_ERROR_UNKNOWN = 999,
    }

    /// The kind of a record, and the kinds that are collected.
    CUpti_ActivityKind {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
        CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER = 25,
    }

    /// The content of a record of unified memory.
    CUpti_ActivityUnifiedMemoryCounterKind {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD = 1,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH = 2,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT = 3,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT = 4,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING = 5,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING = 6,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP = 7,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD = 8,
    }

    /// The devices for which records are collected.
    CUpti_ActivityUnifiedMemoryCounterScope {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE = 1,
    }

    /// The access of a faulting kernel: the flags of a record of GPU faults.
    CUpti_ActivityUnifiedMemoryAccessType {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_UNKNOWN = 0,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ = 1,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE = 2,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_ATOMIC = 3,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_PREFETCH = 4,
    }

    /// The cause of a migration: the flags of a record of a transfer.
    CUpti_ActivityUnifiedMemoryMigrationCause {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_UNKNOWN = 0,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_USER = 1,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE = 2,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH = 3,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION = 4,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_ACCESS_COUNTERS = 5,
    }

    /// The cause of a remote mapping: the flags of a record of a remote map.
    CUpti_ActivityUnifiedMemoryRemoteMapCause {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_COHERENCE = 1,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_THRASHING = 2,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_POLICY = 3,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_OUT_OF_MEMORY = 4,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_EVICTION = 5,
    }

    /// The buffers that a flush returns.
    CUpti_ActivityFlag {
        CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1,
    }
}

/// The common first fields of all records.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUpti_Activity {
    pub kind: CUpti_ActivityKind,
}

/// Selects a counter of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUpti_ActivityUnifiedMemoryCounterConfig {
    pub scope: CUpti_ActivityUnifiedMemoryCounterScope,
    pub kind: CUpti_ActivityUnifiedMemoryCounterKind,
    pub deviceId: u32,
    pub enable: u32,
}

/// A record of unified memory before CUDA 12.6. The later [`CUpti_ActivityUnifiedMemoryCounter3`] begins with the same fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUpti_ActivityUnifiedMemoryCounter2 {
    pub kind: CUpti_ActivityKind,
    pub counterKind: CUpti_ActivityUnifiedMemoryCounterKind,
    pub value: u64,
    pub start: u64,
    pub end: u64,
    pub address: u64,
    pub srcId: u32,
    pub dstId: u32,
    pub streamId: u32,
    pub processId: u32,
    pub flags: u32,
    pub pad: u32,
}

/// A record of unified memory in newer versions (12.9 has it, 12.2 does not).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUpti_ActivityUnifiedMemoryCounter3 {
    pub counter2: CUpti_ActivityUnifiedMemoryCounter2,
    pub processors: [u64; 5],
}

/// The common first fields of `CUpti_ActivityKernel8`, `9` and `10` (CUDA 11.8, 12.x, 13.x).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUpti_ActivityKernelPrefix {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: u8,
    pub sharedMemoryConfig: u8,
    pub registersPerThread: u16,
    pub partitionedGlobalCacheRequested: u32,
    pub partitionedGlobalCacheExecuted: u32,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub gridX: i32,
    pub gridY: i32,
    pub gridZ: i32,
    pub blockX: i32,
    pub blockY: i32,
    pub blockZ: i32,
    pub staticSharedMemory: i32,
    pub dynamicSharedMemory: i32,
    pub localMemoryPerThread: u32,
    pub localMemoryTotal: u32,
    pub correlationId: u32,
    pub gridId: i64,
    pub name: *const c_char,
}

/// Requests a buffer from the client: address, size in bytes, and the limit on the records in it (0: as many as fit).
pub type CUpti_BuffersCallbackRequestFunc =
    unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, maxNumRecords: *mut usize);

/// Returns a buffer to the client: context, stream, address, size, and bytes of records in it.
pub type CUpti_BuffersCallbackCompleteFunc = unsafe extern "C" fn(
    context: *mut c_void,
    streamId: u32,
    buffer: *mut u8,
    size: usize,
    validSize: usize,
);
