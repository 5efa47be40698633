//! Targets in the filter's form.

use super::bound::{Bound, RowBound};
use super::filter::MOST_SPECIAL;
use super::modules::Modules;
use super::tiles::{BLOCK, Format, TILE, room};
use crate::cosine_top_k::{TargetScalar, type_index, warps};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{Device, DeviceBuffer, Stream, View, constant};
use std::mem::MaybeUninit;

/// Targets `[rows, dim]` that were converted to the filter's form for repeated searches: the scaled rows in 16 or 8 bits, their
/// inverse norms, and bounds on the rounding errors. They need about half the bytes of rows in single precision (a quarter in
/// 8 bits), in device memory.
///
/// The original rows are still needed, in any memory that a kernel can read (device, unified or pinned memory): a search reads
/// the few rows that it scores in single precision. Made by [`ExactTopK::prepare`](crate::ExactTopK::prepare).
///
/// ```
/// use cuda_um::Stream;
/// use um_search::{ExactTopK, Format, Metric, Result, SearchBuffers, TopKShape};
///
/// fn search_twice(search: &ExactTopK, stream: &Stream, shape: TopKShape, of: [SearchBuffers<'_, f32>; 2]) -> Result<()> {
///     let ([first, second], rows) = (of, 0..100 * shape.dim);
///     let mut prepared = search.prepare(stream, first.targets, shape.dim, Metric::Cosine, Format::Int8)?;
///     search.launch_prepared(stream, shape, &prepared, first)?;
///     // … the first 100 rows change …
///     search.update(stream, &mut prepared, 0, second.targets.slice(rows)?)?;
///     search.launch_prepared(stream, shape, &prepared, second)?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct PreparedTargets {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) metric: Metric,
    pub(super) format: Format,
    pub(super) norms: DeviceBuffer<MaybeUninit<f32>>,
    pub(super) tiles: DeviceBuffer<MaybeUninit<u16>>,
    /// With [`Format::Int8`], a scale for each row.
    pub(super) scales: DeviceBuffer<MaybeUninit<f32>>,
    pub(super) bounds: DeviceBuffer<MaybeUninit<RowBound>>,
    pub(super) tile_bounds: DeviceBuffer<MaybeUninit<RowBound>>,
    /// The number of special rows, then their indices.
    pub(super) specials: DeviceBuffer<u32>,
}

impl PreparedTargets {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The metric for which they were prepared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The format of their copy.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Their size in device memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.norms.size_bytes()
            + self.tiles.size_bytes()
            + self.scales.size_bytes()
            + self.bounds.size_bytes()
            + self.tile_bounds.size_bytes()
            + self.specials.size_bytes()
    }

    pub(super) fn room(
        device: &Device,
        rows: usize,
        dim: usize,
        metric: Metric,
        format: Format,
    ) -> Result<Self> {
        let padded = rows.next_multiple_of(BLOCK);
        Ok(Self {
            rows,
            dim,
            metric,
            format,
            norms: DeviceBuffer::uninit(device, rows)?,
            tiles: DeviceBuffer::uninit(device, room(padded, dim, format))?,
            scales: DeviceBuffer::uninit(device, if format == Format::Int8 { padded } else { 1 })?,
            bounds: DeviceBuffer::uninit(device, padded)?,
            tile_bounds: DeviceBuffer::uninit(device, padded / BLOCK)?,
            specials: DeviceBuffer::zeroed(device, 1 + MOST_SPECIAL)?,
        })
    }

    /// Bytes of [`room`](Self::room).
    pub(super) fn bytes(rows: usize, dim: usize, format: Format) -> usize {
        let padded = rows.next_multiple_of(BLOCK);
        let bounds = size_of::<RowBound>() * (padded + padded / BLOCK);
        let tiles = room(padded, dim, format).saturating_mul(size_of::<u16>());
        tiles.saturating_add(4 * (rows + 1 + MOST_SPECIAL + padded) + bounds)
    }

    /// True if the memory can be used for rows of this shape, metric and format.
    pub(super) fn fits(&self, rows: usize, dim: usize, metric: Metric, format: Format) -> bool {
        (self.rows, self.dim, self.metric, self.format) == (rows, dim, metric, format)
    }

    /// Enqueues the conversion of rows from `first` on.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(super) fn convert<T: TargetScalar>(
        &mut self,
        modules: &Modules,
        stream: &Stream,
        first: usize,
        rows: View<'_, T>,
    ) -> Result<()> {
        let given = rows.len() / self.dim;
        // With the last row, the rows beyond the end are also converted, to zeros.
        let count = match first + given {
            end if end == self.rows => self.rows.next_multiple_of(BLOCK) - first,
            _ => given,
        };
        let bound = Bound::new(self.dim, self.metric, self.format);
        let prepare = &modules.prepare[type_index::<T>()][self.format as usize];
        let tiles = self.rows.div_ceil(BLOCK);
        // SAFETY: the arguments are those of the kernels in cuda/exact_prepare.cu. They write rows `first` to `first + count`,
        // and bounds of `tiles` blocks: `room` allocated the buffers for all rows, padded to whole blocks. `rows` holds the
        // first `given` rows, which are all rows before the end.
        unsafe {
            prepare.launch(
                stream,
                warps(count),
                (
                    rows,
                    &mut self.norms,
                    &mut self.tiles,
                    &mut self.scales,
                    &mut self.bounds,
                    &mut self.specials,
                    constant(first as u64),
                    constant(count as u64),
                    constant((first + given) as u64),
                    constant(self.dim as u64),
                    constant(bound.grow),
                    constant(u32::from(self.metric == Metric::Cosine)),
                ),
            )?;
            modules.tile_bounds.launch(
                stream,
                warps(tiles),
                (
                    &self.bounds,
                    &mut self.tile_bounds,
                    &mut self.specials,
                    constant(MOST_SPECIAL as u32),
                    constant(tiles as u32),
                    constant(self.rows as u32),
                ),
            )?;
        }
        Ok(())
    }
}

/// The number of queries, rounded up to whole tiles.
pub(super) fn padded_queries(queries: usize) -> usize {
    queries.next_multiple_of(TILE)
}
