//! The filter's products of queries and targets.

use crate::chain;
use crate::exact::bound::{Bound, RowBound, TILE_K};
use crate::exact::tiles::{BLOCK, Format, TILE, place, room};
use crate::reference::number;
use cuda_um_sim::{LaunchContext, ReferenceError};
use std::time::Duration;

/// Operations a second of the tensor cores of an H200 in these kernels, as measured.
const RATE: f64 = 6e14;

/// The i-th block of targets of a launch: of all blocks, of every period-th block, or (if the period is negative) of all
/// others.
fn tile_at(i: usize, period: i32) -> usize {
    match period {
        0 => i,
        1.. => i * period as usize,
        _ => i + i / (-period - 1) as usize + 1,
    }
}

/// Rows of tiles, converted to single precision.
fn rows_of(tiles: &[u16], rows: std::ops::Range<usize>, blocks: usize, format: Format) -> Vec<f32> {
    let dim = blocks * TILE_K;
    rows.flat_map(|row| (0..dim).map(move |element| (row, element)))
        .map(|(row, element)| format.widen(tiles[place(row, element, blocks)]))
        .collect()
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
    queries: Vec<f32>,
    query_bounds: &'a [RowBound],
    targets: &'a [u16],
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
    /// The number of blocks, their period and the bound are the arguments from `first` on. Tells the simulator the time that
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
        let dim = blocks * TILE_K;
        let end = tiles
            .checked_sub(1)
            .map_or(0, |last| tile_at(last, period) + 1);
        let query_tiles = launch.slice::<u16>(0, room(query_count, dim))?;
        let operations = 2.0 * (query_count.next_multiple_of(TILE) * tiles * BLOCK * dim) as f64;
        launch.lasts(Duration::from_secs_f64(operations / RATE));
        Ok(Self {
            queries: rows_of(query_tiles, 0..query_count, blocks, format),
            query_bounds: launch.slice(2, query_count)?,
            targets: launch.slice(1, end * BLOCK * dim)?,
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
            let targets = rows_of(self.targets, rows, self.blocks, self.format);
            let dim = self.blocks * TILE_K;
            chain::products(&self.queries, &targets, dim, &mut products);
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
