//! What an attribution consists of.

/// A part of a record that lies in one buffer. Point-like records (faults) have one piece of no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The buffer, as an index into [`Trace::buffers`](crate::Trace::buffers); `None` for memory of no known buffer.
    pub buffer: Option<usize>,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Its part of the record's time in nanoseconds, by bytes.
    pub nanoseconds: u64,
    /// Whether it is the record's first piece: the one where the record as a whole is counted.
    pub first: bool,
}

/// What was running when a record was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Explanation {
    /// A kernel, as an index into [`Trace::kernels`](crate::Trace::kernels).
    Run(usize),
    /// An operation, as an index into [`Trace::operations`](crate::Trace::operations).
    Operation(usize),
    /// Nothing that the trace knows of.
    #[default]
    Nothing,
}
