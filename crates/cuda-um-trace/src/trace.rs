//! The trace as data, and its JSON.
//!
//! Times are nanoseconds of the trace's own clock: CUPTI's on a GPU, the virtual one of the simulator.

mod check;

use serde::{Deserialize, Serialize};

/// All data that were recorded between a start and a stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Version of this format: [`Trace::FORMAT`].
    pub format: u32,
    /// The recorder of the trace.
    pub source: Source,
    /// The devices of the machine.
    pub devices: Vec<DeviceInfo>,
    /// The time at which recording began.
    pub start: u64,
    /// The time at which recording ended.
    pub end: u64,
    /// Every buffer that was alive in that time. Ids are unique within a trace; addresses may be reused.
    pub buffers: Vec<Buffer>,
    /// The requests of the program, in the order in which the calls began.
    pub operations: Vec<Operation>,
    /// The kernels that ran, by start.
    pub kernels: Vec<KernelRun>,
    /// The driver's actions on managed memory, by start.
    pub records: Vec<Record>,
    /// Number of records that the source dropped, because it had no space for them.
    pub dropped_records: u64,
    /// Number of operations, buffers and kernels that the collector dropped, because it had no space for them.
    pub dropped_operations: u64,
}

impl Trace {
    /// The version of the format that this crate writes and reads.
    pub const FORMAT: u32 = 1;

    /// The trace as JSON, one line.
    pub fn to_json(&self) -> String {
        // A trace has string keys and no floating point, and writing to a string cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the output of [`Trace::to_json`].
    ///
    /// # Errors
    /// [`TraceError::Json`] for other text, [`TraceError::Format`] for another version of the format, [`TraceError::Invalid`]
    /// for a number that no machine can have recorded.
    pub fn from_json(json: &str) -> Result<Self, TraceError> {
        let trace: Self = serde_json::from_str(json)?;
        if trace.format != Self::FORMAT {
            return Err(TraceError::Format {
                found: trace.format,
            });
        }
        trace.check()?;
        Ok(trace)
    }
}

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The text is not the JSON of a trace.
    #[error("this is not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("the trace has format {found}; this version reads {}", Trace::FORMAT)]
    Format {
        /// Its version.
        found: u32,
    },
    /// A number that no machine can have recorded.
    #[error("{list}[{index}] has a number that no machine records, or ends before it starts")]
    Invalid {
        /// The list: `"records"`, or `"the trace"`.
        list: &'static str,
        /// The number of the entry, from 0.
        index: usize,
    },
}

/// The recorder of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `"CUPTI"` or `"simulator"`.
    pub name: String,
    /// The real or simulated CUDA version: `"13.0"`.
    pub cuda: String,
}

/// A device of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its name: `"NVIDIA H200"`.
    pub name: String,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Whether it has concurrent managed access. Without it, CUDA refuses prefetches and advice.
    #[serde(default = "yes")]
    pub concurrent_managed_access: bool,
}

fn yes() -> bool {
    true
}

/// A location of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The host's memory.
    Host,
    /// The memory of the device with this ordinal.
    Device(u32),
}

impl Place {
    /// The location as words: "the host", "device 0".
    pub(crate) fn words(self) -> String {
        match self {
            Self::Host => "the host".to_owned(),
            Self::Device(device) => format!("device {device}"),
        }
    }
}

/// A buffer, or a slab of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Its number in this trace.
    pub id: u64,
    /// The name that the program set; otherwise its type and length, `"UnifiedBuffer<f32>[1024]"`.
    pub name: String,
    /// The call site of its allocation: `"src/main.rs:12"`.
    pub site: Option<String>,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Size of an element in bytes.
    pub element_bytes: u32,
    /// True for managed memory, which can migrate. Other buffers appear only in operations.
    pub managed: bool,
    /// The slab that contains it. Slabs are also buffers.
    pub slab: Option<u64>,
    /// The device that it belongs to.
    pub device: u32,
    /// The time of its allocation; `None` if that was before the trace began.
    pub allocated: Option<u64>,
    /// The time of its drop; `None` if that was not before the trace ended.
    pub freed: Option<u64>,
}

/// A request of the program to the library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its number in this trace, counting up.
    pub id: u64,
    /// The kind of operation.
    #[serde(flatten)]
    pub kind: OperationKind,
    /// The stream on which it was enqueued, with the library's number; `None` for work of the host.
    pub stream: Option<u64>,
    /// The device of the stream or buffer.
    pub device: u32,
    /// The time at which the call began on the host.
    pub start: u64,
    /// The time at which the call returned; for a host guard, the time of its drop.
    pub end: u64,
    /// The memory that it used.
    pub accesses: Vec<AccessedRange>,
}

/// The kind of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationKind {
    /// A kernel was launched.
    Launch {
        /// Its name.
        kernel: String,
    },
    /// A migration was enqueued.
    Prefetch {
        /// The destination.
        to: Place,
        /// The library elided the call, because all data were in place.
        left_out: bool,
    },
    /// Advice was set or unset.
    Advise {
        /// The advice in CUDA's words, without the prefix: `"SetReadMostly"`.
        advice: String,
        /// The location that it names.
        place: Option<Place>,
    },
    /// Host code held a guard (or copied). It may have accessed the memory between start and end.
    Host,
    /// A copy on a stream, between buffers or from and to the host's own memory.
    Copy,
    /// A fill on a stream.
    Fill,
    /// Any other operation for the timeline.
    Other {
        /// Its name.
        name: String,
    },
}

/// A use of memory by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessedRange {
    /// The buffer's id.
    pub buffer: u64,
    /// The first byte within the buffer.
    pub offset: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// True if the memory may have been written.
    pub write: bool,
}

/// A kernel that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRun {
    /// Its name.
    pub name: String,
    /// The device it ran on.
    pub device: u32,
    /// The stream, with the number of the source.
    pub stream: u32,
    /// The time at which it began on the device.
    pub start: u64,
    /// The time at which it ended.
    pub end: u64,
    /// The launch of this run, if it is known.
    pub operation: Option<u64>,
}

/// An action of the driver on managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The kind of action.
    #[serde(flatten)]
    pub kind: RecordKind,
    /// The first byte of the memory.
    pub address: u64,
    /// The time at which it began.
    pub start: u64,
    /// The time at which it ended; equal to the start if the source does not report an end (CPU faults, thrashing, remote
    /// maps).
    pub end: u64,
}

/// The kind of a [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordKind {
    /// Pages moved or were copied.
    Migration {
        /// The source location.
        from: Place,
        /// The destination.
        to: Place,
        /// The number of bytes.
        bytes: u64,
        /// The cause.
        cause: Cause,
    },
    /// Host code accessed a page that was not on the host.
    CpuFault {
        /// The address of the instruction; 0 if the source does not report it.
        instruction: u64,
    },
    /// A kernel accessed pages that were not on the device, and the driver served the faults as one group.
    GpuFault {
        /// The device that faulted.
        device: u32,
        /// The number of faults.
        faults: u64,
        /// The kind of access.
        access: FaultAccess,
    },
    /// Host and devices moved the region to and fro repeatedly.
    Thrashing {
        /// The region's size in bytes.
        bytes: u64,
    },
    /// The driver throttled a processor because of thrashing.
    Throttling {
        /// The processor.
        place: Place,
    },
    /// The region was mapped at its location and did not move.
    RemoteMap {
        /// The processor that accesses it.
        by: Place,
        /// The location of the memory.
        at: Place,
        /// The region's size in bytes.
        bytes: u64,
    },
}

/// The cause of a migration, in CUPTI's words.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Not reported.
    #[default]
    Unknown,
    /// A prefetch or another call of the program (CUPTI: user).
    User,
    /// A fault (CUPTI: coherence).
    Coherence,
    /// The driver prefetched around a fault (CUPTI: prefetch).
    Prefetch,
    /// Memory was needed on the device (CUPTI: eviction).
    Eviction,
    /// The device accessed the memory often enough (CUPTI: access counters).
    AccessCounters,
}

impl Cause {
    /// True if a fault caused the migration, or may have caused it.
    pub(crate) fn by_fault(self) -> bool {
        matches!(self, Self::Coherence | Self::Prefetch | Self::Unknown)
    }
}

/// The kind of access of a faulting kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultAccess {
    /// Not reported.
    #[default]
    Unknown,
    /// To read.
    Read,
    /// To write.
    Write,
    /// An atomic operation.
    Atomic,
    /// A prefetch instruction.
    Prefetch,
}
