//! Parts of an attribution.

/// A part of a record that lies in one buffer. The piece of a record without a size (a fault) has zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The buffer, as an index into [`Trace::buffers`](crate::Trace::buffers); `None` for memory of no known buffer.
    pub buffer: Option<usize>,
    /// The first byte.
    pub address: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The piece's share of the record's time in nanoseconds, in proportion to its bytes.
    pub nanoseconds: u64,
    /// True for the first piece of a record. The record as a whole is counted there.
    pub first: bool,
}

/// The work that was running when a record was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Explanation {
    /// A kernel, as an index into [`Trace::kernels`](crate::Trace::kernels).
    Run(usize),
    /// An operation, as an index into [`Trace::operations`](crate::Trace::operations).
    Operation(usize),
    /// No work that is in the trace.
    #[default]
    Nothing,
}
