//! Assigns each record to buffers (by address and time), and to the operation that was running (by time).
//!
//! # Rules for buffers
//! A record belongs to the innermost live buffer: a buffer of a pool comes before its slab. A migration over several buffers is
//! split at their borders, so that the sums over buffers equal the sums over records, to the byte and nanosecond. Padding that
//! moved with a buffer counts towards this buffer. A record that touches no buffer is kept, without a buffer.
//!
//! # Rules for operations
//! - GPU faults, and migrations to a device that no call requested: the kernel that was running on that device when the record
//!   began. If several kernels ran, the one that uses the buffer, then the one that started last. If none ran, the latest
//!   launch, copy or fill over that memory.
//! - CPU faults, and migrations to the host that no call requested: the host guard or copy that was running. If there are
//!   several, the one that concerns the buffer, then the one that began last.
//! - Migrations of cause [`User`](crate::Cause::User): the latest prefetch over this memory to this location, otherwise the
//!   latest prefetch over this memory, otherwise the latest advice, discard or copy.
//! - Evictions: the kernel that was running, otherwise the latest prefetch to any device. This operation needed the memory.
//! - Thrashing, throttling and remote maps: the kernel that was running, otherwise the host guard.
//!
//! This module does not match by name and does not merge records.

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

/// The buffers and the operation of each record.
///
/// ```
/// # let trace = cuda_um_trace::Trace::default();
/// use cuda_um_trace::Attribution;
///
/// let attribution = Attribution::of(&trace);
/// for (index, record) in trace.records.iter().enumerate() {
///     let explanation = attribution.explanation(index);
///     let operation = attribution.operation(explanation).map(|operation| &trace.operations[operation]);
///     println!("{record:?}: {:?}, {operation:?}", attribution.pieces(index));
/// }
/// let launches = (0..trace.kernels.len()).map(|run| attribution.launch(run)); // the operation of each run of a kernel
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    pieces: Vec<Piece>,
    /// The range of pieces of each record.
    spans: Vec<Range<usize>>,
    explanations: Vec<Explanation>,
    launches: Vec<Option<usize>>,
}

impl Attribution {
    /// Attributes every record of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut order: Vec<usize> = (0..trace.records.len()).collect();
        order.sort_by_key(|&record| trace.records[record].start);
        let mut index = BufferIndex::new(&trace.buffers);
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
        }
    }

    /// The pieces of the record with this index; at least one.
    ///
    /// # Panics
    /// The trace has no such record.
    pub fn pieces(&self, record: usize) -> &[Piece] {
        &self.pieces[self.spans[record].clone()]
    }

    /// The operation that was running.
    ///
    /// # Panics
    /// The trace has no such record.
    pub fn explanation(&self, record: usize) -> Explanation {
        self.explanations[record]
    }

    /// The launch of a kernel run, as an index into [`Trace::operations`].
    ///
    /// # Panics
    /// The trace has no such kernel.
    pub fn launch(&self, kernel: usize) -> Option<usize> {
        self.launches[kernel]
    }

    /// The operation of an explanation, as an index into [`Trace::operations`]: for a kernel, its launch.
    pub fn operation(&self, explanation: Explanation) -> Option<usize> {
        match explanation {
            Explanation::Run(kernel) => self.launch(kernel),
            Explanation::Operation(operation) => Some(operation),
            Explanation::Nothing => None,
        }
    }
}
