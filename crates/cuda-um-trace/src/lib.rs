//! What CUDA Unified Memory moved, when and why: [`Trace`], and what is made of it.
//!
//! A trace is plain data with three independent witnesses of one time: what the driver did ([`Record`], [`KernelRun`]), what the
//! program asked for ([`Operation`]), and what lay where ([`Buffer`]). They meet by address and time alone, so a trace of a GPU and one
//! of the simulator read alike.
//!
//! What this crate does not do: call CUDA, or record anything.

mod attribution;
mod maxima;
mod pattern;
mod picture;
mod report;
mod residency;
mod runs;
mod trace;
mod units;

pub use attribution::{Attribution, Explanation, Piece};
pub use pattern::{BlockUse, BufferPattern, Order, SuggestedPattern, Usage, patterns};
pub use picture::{html, perfetto, svg};
pub use report::{
    BufferLine, CauseLine, Finding, FindingKind, MigrationReport, OperationLine, Saving, Traffic,
};
pub use trace::{
    Access, Buffer, Cause, DeviceInfo, FaultAccess, KernelRun, Operation, OperationKind, Place,
    Record, RecordKind, Source, Trace, TraceError, fitting_name,
};

/// Size of the blocks that the driver manages residency in: 2 MiB.
pub const BLOCK_BYTES: u64 = 2 << 20;
