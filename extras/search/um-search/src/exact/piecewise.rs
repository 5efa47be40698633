//! Targets whose copy for the filter stays within a limit of device memory.

use super::ExactTopK;
use super::budget::{Budget, too_small};
use super::host_piece::HostPiece;
use super::prepared::PreparedTargets;
use super::tiles::{BLOCK, Format};
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{DeviceBuffer, Stream, View};

/// Targets `[rows, dim]` for repeated searches that use at most a stated number of bytes of device memory. If their copy in the
/// filter's form is larger, it is in pinned memory, in pieces that two parts of the device memory hold in turn: while one piece
/// is searched, the next is copied.
///
/// The exact rows stay where they are, in any memory that a kernel can read: for targets larger than the device's memory, in
/// pinned memory, or in registered memory ([`RegisteredBuffer`](cuda_um::RegisteredBuffer)). A search reads only the rows that it
/// scores in single precision. Made by [`ExactTopK::prepare_within`].
#[derive(Debug)]
pub struct PiecewiseTargets {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) budget: Budget,
    /// One, or two that are used in turn.
    pub(super) slots: Vec<PreparedTargets>,
    /// Empty if the copy is in device memory.
    pub(super) pieces: Vec<HostPiece>,
    /// Copies run on their own stream.
    pub(super) copies: Stream,
    /// Lists of one piece: scores and indices.
    pub(super) lists: Option<(DeviceBuffer<f32>, DeviceBuffer<u32>)>,
}

impl PiecewiseTargets {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of pieces; 1: the copy is in device memory.
    pub fn pieces(&self) -> usize {
        self.pieces.len().max(1)
    }

    /// The limit of device memory that they were made for, in bytes.
    pub fn budget_bytes(&self) -> usize {
        self.budget.bytes
    }

    /// Their size in device memory, in bytes, without the memory that a search needs.
    pub fn device_bytes(&self) -> usize {
        self.slots.iter().map(PreparedTargets::size_bytes).sum()
    }

    /// The most queries of a pass within the limit.
    pub(super) fn batch(&self, shape: TopKShape, multiprocessors: usize) -> Result<usize> {
        let targets = self.pieces.first().map_or(self.rows, |piece| piece.rows);
        let piece = TopKShape { targets, ..shape };
        let format = self.slots[0].format;
        self.budget
            .batch(piece, self.device_bytes(), multiprocessors, format)
    }

    /// Their size in pinned memory, in bytes.
    pub fn host_bytes(&self) -> usize {
        self.pieces.iter().map(HostPiece::size_bytes).sum()
    }
}

impl ExactTopK {
    /// Converts targets `rows [N, dim]`, row-major, for searches with [`launch_within`](Self::launch_within), which together with
    /// them use at most `budget_bytes` of device memory: a quarter is for the searches. `progress` gets the number of rows
    /// that were converted so far.
    ///
    /// # Ordering
    /// After all earlier uses of the rows on any stream. If there are several pieces, this waits for their conversion.
    ///
    /// # Errors
    /// The errors of [`prepare`](Self::prepare), or no piece of 256 rows fits in the limit; the error states the least number.
    #[allow(
        clippy::too_many_arguments,
        reason = "those of `prepare`, and the limit"
    )]
    pub fn prepare_within<T: TargetScalar>(
        &self,
        stream: &Stream,
        rows: View<'_, T>,
        dim: usize,
        metric: Metric,
        format: Format,
        budget_bytes: usize,
        mut progress: impl FnMut(usize),
    ) -> Result<PiecewiseTargets> {
        let modules = self.modules()?;
        let count = Self::check_rows(rows.len(), dim)?;
        let budget = Budget::new(budget_bytes);
        let piece_rows = budget.piece_rows(count, dim, format).ok_or_else(|| {
            let least = Budget::least(dim, format);
            too_small(
                budget_bytes,
                least,
                &format!("two pieces of {BLOCK} rows of {dim} elements"),
            )
        })?;
        let mut targets = PiecewiseTargets {
            rows: count,
            dim,
            budget,
            slots: Vec::new(),
            pieces: Vec::new(),
            copies: self.device.create_stream()?,
            lists: None,
        };
        let slots = if piece_rows < count { 2 } else { 1 };
        for _ in 0..slots {
            let slot = PreparedTargets::room(&self.device, piece_rows, dim, metric, format)?;
            targets.slots.push(slot);
        }
        for (piece, first) in (0..count).step_by(piece_rows).enumerate() {
            let end = count.min(first + piece_rows);
            let slot = &mut targets.slots[piece % slots];
            slot.rows = end - first;
            slot.convert(modules, stream, 0, rows.slice(first * dim..end * dim)?)?;
            if slots > 1 {
                targets.pieces.push(HostPiece::of(&targets.copies, slot)?);
                stream.synchronize()?;
                progress(end);
            }
        }
        if slots == 1 {
            progress(count);
        }
        Ok(targets)
    }
}
