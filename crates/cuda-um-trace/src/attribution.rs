//! Records become buffers by address and time, and the operation that was running by time.
//!
//! # Which buffer
//! The innermost one that was alive: a buffer of a pool before its slab. A migration over several buffers is cut at their borders, so
//! that sums over buffers are the sums over records, to the byte and nanosecond. Padding that moved along with a buffer counts to it;
//! a record that meets no buffer is kept, as nobody's.
//!
//! # Which operation
//! - GPU faults, and migrations to a device that no call asked for: the kernel that was running on that device when the record began. Of
//!   several at once the one that uses the buffer, then the one that started last. If none was running: the latest launch, copy or
//!   fill over that memory.
//! - CPU faults, and migrations to the host that no call asked for: the host guard or copy that was running. Of several the one that
//!   concerns the buffer, then the one that began last.
//! - Migrations of cause [`User`](crate::Cause::User): the latest prefetch there (over this memory and to this place, before over this memory alone),
//!   else the latest advice, discard or copy.
//! - Evictions: the kernel that was running, else the latest prefetch to any device: whoever needed the room.
//! - Thrashing, throttling and remote maps: the kernel that was running, else the host's guard.
//!
//! What this module does not do: guess by name, or merge records.

mod buffers;
mod operations;
mod running;

use crate::{RecordKind, Trace};
use buffers::BufferIndex;
use operations::Explainer;

/// A part of a record that lies in one buffer. Point-like records (faults) have one piece of no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The buffer, as an index into [`Trace::buffers`]; `None` for memory that is nobody's.
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
    /// A kernel, as an index into [`Trace::kernels`].
    Run(usize),
    /// An operation, as an index into [`Trace::operations`].
    Operation(usize),
    /// Nothing that the trace knows of.
    #[default]
    Nothing,
}

/// Where each record belongs.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    pieces: Vec<Piece>,
    /// Where each record's pieces begin, and a last entry for the end.
    begins: Vec<usize>,
    explanations: Vec<Explanation>,
    launches: Vec<Option<usize>>,
}

impl Attribution {
    /// Attributes every record of a trace.
    pub fn of(trace: &Trace) -> Self {
        let index = BufferIndex::new(&trace.buffers);
        let mut pieces = Vec::with_capacity(trace.records.len());
        let mut begins = Vec::with_capacity(trace.records.len() + 1);
        for record in &trace.records {
            begins.push(pieces.len());
            let bytes = match record.kind {
                RecordKind::Migration { bytes, .. } => bytes,
                _ => 0,
            };
            let nanoseconds = record.end.saturating_sub(record.start);
            index.cut(
                record.address,
                bytes,
                record.start,
                nanoseconds,
                &mut pieces,
            );
        }
        begins.push(pieces.len());
        let first: Vec<Piece> = begins[..trace.records.len()]
            .iter()
            .map(|&begin| pieces[begin])
            .collect();
        let explainer = Explainer::new(trace);
        let launches = explainer.launches().to_vec();
        Self {
            explanations: explainer.explain(&first),
            pieces,
            begins,
            launches,
        }
    }

    /// The pieces of the record with this index; never none.
    ///
    /// # Panics
    /// The trace has no such record.
    pub fn pieces(&self, record: usize) -> &[Piece] {
        &self.pieces[self.begins[record]..self.begins[record + 1]]
    }

    /// What was running.
    ///
    /// # Panics
    /// The trace has no such record.
    pub fn explanation(&self, record: usize) -> Explanation {
        self.explanations[record]
    }

    /// The launch that a kernel came from, as an index into [`Trace::operations`].
    ///
    /// # Panics
    /// The trace has no such kernel.
    pub fn launch(&self, kernel: usize) -> Option<usize> {
        self.launches[kernel]
    }

    /// The operation behind an explanation, as an index into [`Trace::operations`]: for a kernel, its launch.
    pub fn operation(&self, explanation: Explanation) -> Option<usize> {
        match explanation {
            Explanation::Run(kernel) => self.launch(kernel),
            Explanation::Operation(operation) => Some(operation),
            Explanation::Nothing => None,
        }
    }
}
