//! Traces of CUDA Unified Memory: [`Trace`], and reports and pictures of it.
//!
//! A trace is plain data from three independent sources: the driver's actions ([`Record`], [`KernelRun`]), the program's
//! requests ([`Operation`]), and the buffers in memory ([`Buffer`]). They are matched only by address and time, so a trace of a
//! GPU and a trace of the simulator have the same form.
//!
//! This crate does not call CUDA and does not record anything.

mod attribution;
mod pattern;
mod picture;
mod report;
mod residency;
mod trace;
mod units;

pub use attribution::{Attribution, Explanation, Piece};
pub use pattern::{BufferPattern, SuggestedPattern, Usage, patterns};
pub use picture::{html, perfetto};
pub use report::{
    BufferLine, Call, CauseLine, Finding, FindingKind, MigrationReport, OperationLine, Saving,
    Traffic,
};
pub use trace::{
    AccessedRange, Buffer, Cause, DeviceInfo, FaultAccess, KernelRun, Operation, OperationKind,
    Place, Record, RecordKind, Source, Trace, TraceError,
};

/// Size of the blocks in which the driver manages residency: 2 MiB.
pub const BLOCK_BYTES: u64 = 2 << 20;
