//! The filter's products of queries and targets.

use crate::chain;
use crate::exact::bound::{Bound, RowBound};
use crate::exact::tiles::{BLOCK, Format, TILE, place, room};
use crate::reference::number;
use cuda_um_sim::{LaunchContext, ReferenceError};
use rayon::prelude::*;
use std::ops::Range;
use std::time::Duration;

/// Operations a second of the tensor cores of an H200 in these kernels, as measured.
fn rate(format: Format) -> f64 {
    match format {
        Format::Bf16 | Format::F16 => 6e14,
        Format::Int8 => 1.1e15,
    }
}

/// The i-th block of targets of a launch: of all blocks, of every period-th block, or (if the period is negative) of all
/// others.
fn tile_at(i: usize, period: i32) -> usize {
    match period {
        0 => i,
        1.. => i * period as usize,
        _ => i + i / (-period - 1) as usize + 1,
    }
}

/// Rows of tiles: converted to single precision, or integers and their scales.
enum Rows<'a> {
    Wide(Vec<f32>),
    Int8(Vec<i8>, &'a [f32]),
}

fn rows_of<'a>(
    tiles: &[u16],
    scales: &'a [f32],
    rows: Range<usize>,
    blocks: usize,
    format: Format,
) -> Rows<'a> {
    let dim = blocks * format.tile_elements();
    let places = rows
        .clone()
        .flat_map(|row| (0..dim).map(move |element| place(row, element, blocks, format)));
    match format {
        Format::Bf16 | Format::F16 => {
            Rows::Wide(places.map(|at| format.widen(tiles[at])).collect())
        }
        Format::Int8 => {
            let tiles: &[i8] = bytemuck::cast_slice(tiles);
            Rows::Int8(places.map(|at| tiles[at]).collect(), &scales[rows])
        }
    }
}

/// The scores of queries and targets of `dim` elements, row by row of the queries.
fn scores(queries: &Rows<'_>, targets: &Rows<'_>, dim: usize, found: &mut Vec<f32>) {
    match (queries, targets) {
        (Rows::Int8(queries, query_scales), Rows::Int8(targets, target_scales)) => {
            let lines = queries.par_chunks(dim).zip(*query_scales);
            let each = lines.flat_map_iter(|(query, query_scale)| {
                let rows = targets.chunks(dim).zip(*target_scales);
                rows.map(move |(target, scale)| sum(query, target) as f32 * scale * query_scale)
            });
            found.clear();
            found.par_extend(each);
        }
        (Rows::Wide(queries), Rows::Wide(targets)) => {
            chain::products(queries, targets, dim, found);
        }
        _ => unreachable!("both have the launch's format"),
    }
}

#[inline]
fn sum(query: &[i8], target: &[i8]) -> i32 {
    let products = query.iter().zip(target);
    let products = products.map(|(q, t)| i32::from(*q) * i32::from(*t));
    // Checks for overflow, which these sums are far from, would keep the CPU from adding several at a time.
    products.fold(0, i32::wrapping_add)
}

pub(super) fn bound(launch: &LaunchContext<'_>, kappa: usize) -> Result<Bound, ReferenceError> {
    Ok(Bound {
        kappa: launch.value(kappa)?,
        tiny: launch.value(kappa + 1)?,
        grow: 1.0,
    })
}

/// The filter's scores of all queries with some blocks of targets.
pub(super) struct Scores<'a> {
    queries: Rows<'a>,
    query_bounds: &'a [RowBound],
    targets: &'a [u16],
    target_scales: &'a [f32],
    tile_bounds: &'a [RowBound],
    bound: Bound,
    /// Number of blocks of targets.
    pub tiles: usize,
    period: i32,
    /// Tiles of a row.
    blocks: usize,
    format: Format,
}

/// The scores of a query with a block of targets.
pub(super) struct Row<'a> {
    /// The number of the block in this launch.
    pub place: usize,
    /// The block.
    pub tile: usize,
    pub query: usize,
    pub scores: &'a [f32],
    /// |score − exact score| is at most this.
    pub error: f32,
}

impl<'a> Scores<'a> {
    /// The scales of queries and targets follow the argument `tile_bounds`; the number of blocks, their period and the bound
    /// are the arguments from `first` on. Tells the simulator the time that
    /// the tensor cores need.
    pub fn of(
        launch: &LaunchContext<'a>,
        format: Format,
        query_count: usize,
        tile_bounds: usize,
        first: usize,
    ) -> Result<Self, ReferenceError> {
        let (tiles, period) = (number(launch, first)?, launch.value::<i32>(first + 1)?);
        let blocks = number(launch, first + 2)?;
        let dim = blocks * format.tile_elements();
        let end = tiles
            .checked_sub(1)
            .map_or(0, |last| tile_at(last, period) + 1);
        let query_tiles = launch.slice::<u16>(0, room(query_count, dim, format))?;
        let scales = |index, count| match format {
            Format::Bf16 | Format::F16 => Ok(&[][..]),
            Format::Int8 => launch.slice::<f32>(index, count),
        };
        let query_scales = scales(tile_bounds + 1, query_count)?;
        let operations = 2.0 * (query_count.next_multiple_of(TILE) * tiles * BLOCK * dim) as f64;
        launch.lasts(Duration::from_secs_f64(operations / rate(format)));
        Ok(Self {
            queries: rows_of(query_tiles, query_scales, 0..query_count, blocks, format),
            query_bounds: launch.slice(2, query_count)?,
            targets: launch.slice(1, room(end * BLOCK, dim, format))?,
            target_scales: scales(tile_bounds + 2, end * BLOCK)?,
            tile_bounds: launch.slice(tile_bounds, end)?,
            bound: bound(launch, first + 3)?,
            tiles,
            period,
            blocks,
            format,
        })
    }

    /// The end of the targets.
    pub fn end(&self) -> usize {
        self.tile_bounds.len() * BLOCK
    }

    /// Calls `found` for each block of targets and each query.
    pub fn each(&self, mut found: impl FnMut(Row<'_>)) {
        let mut products = Vec::new();
        for place in 0..self.tiles {
            let tile = tile_at(place, self.period);
            let rows = tile * BLOCK..(tile + 1) * BLOCK;
            let (blocks, format) = (self.blocks, self.format);
            let targets = rows_of(self.targets, self.target_scales, rows, blocks, format);
            let dim = blocks * format.tile_elements();
            scores(&self.queries, &targets, dim, &mut products);
            for (query, scores) in products.chunks(BLOCK).enumerate() {
                found(Row {
                    place,
                    tile,
                    query,
                    scores,
                    error: self
                        .bound
                        .error(self.query_bounds[query], self.tile_bounds[tile]),
                });
            }
        }
    }
}
