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
mod latest;
mod operations;
mod piece;
mod running;

pub use piece::{Explanation, Piece};

use crate::{RecordKind, Trace};
use buffers::BufferIndex;
use operations::Explainer;
use std::ops::Range;

/// Where each record belongs.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    pieces: Vec<Piece>,
    /// Where each record's pieces are.
    spans: Vec<Range<usize>>,
    explanations: Vec<Explanation>,
    launches: Vec<Option<usize>>,
    uncut: u64,
}

impl Attribution {
    /// Attributes every record of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut order: Vec<usize> = (0..trace.records.len()).collect();
        order.sort_by_key(|&record| trace.records[record].start);
        let mut index = BufferIndex::new(&trace.buffers, trace.records.len());
        let mut pieces = Vec::with_capacity(trace.records.len());
        let mut spans = vec![0..0; trace.records.len()];
        for &at in &order {
            let record = &trace.records[at];
            let bytes = match record.kind {
                RecordKind::Migration { bytes, .. } => bytes,
                _ => 0,
            };
            let nanoseconds = record.end.saturating_sub(record.start);
            let begin = pieces.len();
            index.advance(record.start);
            index.cut(record.address, bytes, nanoseconds, &mut pieces);
            spans[at] = begin..pieces.len();
        }
        let first: Vec<Piece> = spans.iter().map(|span| pieces[span.start]).collect();
        let explainer = Explainer::new(trace);
        let launches = explainer.launches().to_vec();
        Self {
            explanations: explainer.explain(&order, &first),
            pieces,
            spans,
            launches,
            uncut: index.uncut,
        }
    }

    /// The pieces of the record with this index; never none.
    ///
    /// # Panics
    /// The trace has no such record.
    pub fn pieces(&self, record: usize) -> &[Piece] {
        &self.pieces[self.spans[record].clone()]
    }

    /// Migrations over so many buffers that they were not cut at every border: the rest of such a record counts to the buffer where its
    /// last piece begins. There are some only if the records of a trace together cross hundreds of thousands of borders.
    pub fn uncut_records(&self) -> u64 {
        self.uncut
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
