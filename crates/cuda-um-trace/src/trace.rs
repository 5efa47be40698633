//! The trace as data, and its JSON.
//!
//! Times are nanoseconds of the trace's own clock: CUPTI's on a GPU, the virtual one of the simulator.

mod check;

pub use check::fitting_name;

use serde::{Deserialize, Serialize};

/// Everything that was recorded between a start and a stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Version of this format: [`Trace::FORMAT`].
    pub format: u32,
    /// Who recorded it.
    pub source: Source,
    /// The devices of the machine.
    pub devices: Vec<DeviceInfo>,
    /// When recording began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Every buffer that was alive in that time. Ids are unique within a trace; addresses may be used again.
    pub buffers: Vec<Buffer>,
    /// What the program asked for, in the order in which the calls began.
    pub operations: Vec<Operation>,
    /// What kernels ran, by start.
    pub kernels: Vec<KernelRun>,
    /// What the driver did to managed memory, by start.
    pub records: Vec<Record>,
    /// Records that the source had no room for: the trace is short of as many.
    pub dropped_records: u64,
    /// Operations, buffers and kernels that the collector had no room for.
    pub dropped_operations: u64,
}

impl Trace {
    /// The version of the format that this crate writes and reads.
    pub const FORMAT: u32 = 1;

    /// The trace as JSON, one line.
    pub fn to_json(&self) -> String {
        // A trace has string keys and no floating point, and a string takes every write: there is nothing to fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Trace::to_json`] wrote. The text need not be trusted.
    ///
    /// # Errors
    /// [`TraceError::Json`] for anything else, [`TraceError::Format`] for another version of the format, [`TraceError::Invalid`] for what
    /// no machine can have recorded ([`check`](Self::check)).
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

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Not a trace's JSON.
    #[error("this is not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("the trace has format {found}; this version reads {}", Trace::FORMAT)]
    Format {
        /// Its version.
        found: u32,
    },
    /// A value that no machine can have recorded.
    #[error("{field:?} of {entry} is {value}; allowed is {allowed}")]
    Invalid {
        /// Where: `"records[3]"`, counted from 0, or `"the trace"`.
        entry: String,
        /// The field's name.
        field: &'static str,
        /// The value.
        value: String,
        /// What would be right.
        allowed: &'static str,
    },
}

/// Who recorded a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `"CUPTI"` or `"simulator"`.
    pub name: String,
    /// The CUDA version that ran or was played: `"13.0"`.
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
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The host's memory.
    Host,
    /// The memory of the device with this ordinal.
    Device(u32),
}

impl Place {
    /// In a sentence: "the host", "device 0".
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
    /// The name that the program gave it; else its type and length, `"UnifiedBuffer<f32>[1024]"`.
    pub name: String,
    /// Where the program made it: `"src/main.rs:12"`.
    pub site: Option<String>,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Size of an element in bytes.
    pub element_bytes: u32,
    /// Whether pages of it can migrate (managed memory); others appear only in operations.
    pub managed: bool,
    /// The slab that it was cut out of. Slabs are buffers too.
    pub slab: Option<u64>,
    /// The device that it belongs to.
    pub device: u32,
    /// When it was made; `None`: before the trace began.
    pub allocated: Option<u64>,
    /// When it was dropped; `None`: not before the trace ended.
    pub freed: Option<u64>,
}

/// Something that the program asked the library for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its number in this trace, counting up.
    pub id: u64,
    /// What it was.
    #[serde(flatten)]
    pub kind: OperationKind,
    /// The stream it was enqueued on, as the library numbers streams; `None` for work of the host.
    pub stream: Option<u64>,
    /// The device of the stream or buffer.
    pub device: u32,
    /// When the call began on the host.
    pub start: u64,
    /// When the call returned; for a host guard, when the guard was dropped.
    pub end: u64,
    /// The memory it concerned.
    pub accesses: Vec<Access>,
}

/// What an [`Operation`] was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum OperationKind {
    /// A kernel was launched.
    Launch {
        /// Its name.
        kernel: String,
    },
    /// A migration was enqueued.
    Prefetch {
        /// Where to.
        to: Place,
        /// The library left the call out, since everything was there.
        left_out: bool,
    },
    /// Advice was given.
    Advise {
        /// In CUDA's words, without the prefix: `"SetReadMostly"`.
        advice: String,
        /// The place it names.
        place: Option<Place>,
    },
    /// Host code held a guard (or copied): it may have touched the accesses between start and end.
    Host,
    /// A copy on a stream, between buffers or from and to the host's own memory.
    Copy,
    /// A fill on a stream.
    Fill,
    /// The contents were given up.
    Discard,
    /// Anything else worth a line on the timeline.
    Other {
        /// What.
        name: String,
    },
}

/// Memory that an operation concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The buffer's id.
    pub buffer: u64,
    /// The first byte within the buffer.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether it may have been written.
    pub write: bool,
}

/// A kernel that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRun {
    /// Its name.
    pub name: String,
    /// The device it ran on.
    pub device: u32,
    /// The stream as the source numbers it.
    pub stream: u32,
    /// When it began on the device.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The launch that it came from, if that is known.
    pub operation: Option<u64>,
}

/// Something that the driver did to managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What.
    #[serde(flatten)]
    pub kind: RecordKind,
    /// The first byte that it concerns.
    pub address: u64,
    /// When it began.
    pub start: u64,
    /// When it ended; the start again where the source tells none (CPU faults, thrashing, remote maps).
    pub end: u64,
}

/// What a [`Record`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum RecordKind {
    /// Pages moved or were copied.
    Migration {
        /// From where.
        from: Place,
        /// To where.
        to: Place,
        /// How much.
        bytes: u64,
        /// Why.
        cause: Cause,
    },
    /// Host code touched a page that was not there.
    CpuFault {
        /// The instruction's address; 0 where the source tells none.
        instruction: u64,
    },
    /// A kernel touched pages that were not there, and the driver served the faults as one group.
    GpuFault {
        /// The device that faulted.
        device: u32,
        /// How many faults there were.
        faults: u64,
        /// What the kernel wanted.
        access: FaultAccess,
    },
    /// Host and devices took the region from each other again and again.
    Thrashing {
        /// The region's size in bytes.
        bytes: u64,
    },
    /// The driver made a processor wait, because of thrashing.
    Throttling {
        /// Which one.
        place: Place,
    },
    /// The region was mapped where it lies instead of being moved.
    RemoteMap {
        /// Who reaches over.
        by: Place,
        /// To where.
        at: Place,
        /// The region's size in bytes.
        bytes: u64,
    },
}

/// Why pages moved, in CUPTI's words.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Not told.
    #[default]
    Unknown,
    /// A prefetch or another call of the program (CUPTI: user).
    User,
    /// A fault (CUPTI: coherence).
    Coherence,
    /// The driver prefetched around a fault (CUPTI: prefetch).
    Prefetch,
    /// Room was needed on the device (CUPTI: eviction).
    Eviction,
    /// The device reached over often enough (CUPTI: access counters).
    AccessCounters,
}

impl Cause {
    /// Whether a migration came from a fault, or may have.
    pub(crate) fn by_fault(self) -> bool {
        matches!(self, Self::Coherence | Self::Prefetch | Self::Unknown)
    }
}

/// What a faulting kernel wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAccess {
    /// Not told.
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
