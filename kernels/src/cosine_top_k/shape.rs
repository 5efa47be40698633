//! The shapes of a batch, and the grids of its kernels.

use super::NAME;
use crate::error::{length, value};
use crate::grid::BLOCK;
use cuda_um::{LaunchConfig, Result};

/// Queries and targets of a tile; cuda/cosine_top_k.cu uses the same number.
pub(super) const TILE: usize = 64;
/// The longest list: candidates are inserted one by one, which is slow for long lists.
const LONGEST: usize = 1024;
/// Blocks for each multiprocessor, so that some load while others compute.
const BLOCKS_EACH: usize = 8;
/// A grid's limit in its second dimension.
const MOST_CHUNKS: usize = 65_535;

/// The shapes of a batch: `queries [queries, dim]`, `targets [targets, dim]`, and results `[queries, k]`, all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKShape {
    /// Rows of the queries.
    pub queries: usize,
    /// Rows of the targets.
    pub targets: usize,
    /// Elements of a row.
    pub dim: usize,
    /// Length of the list of each query.
    pub k: usize,
}

impl TopKShape {
    /// Checks the sizes, and the lengths of the queries, the targets, the scores and the indices.
    pub(super) fn check(self, lengths: [usize; 4]) -> Result<()> {
        let longest = self.targets.min(LONGEST);
        // A grid has at most 2^31 - 1 blocks. A target's index is a u32, and one value marks an empty place.
        for (parameter, found, least, most) in [
            ("dim", self.dim, 1, usize::MAX),
            ("targets", self.targets, 1, u32::MAX as usize - 1),
            ("queries", self.queries, 0, i32::MAX as usize),
            ("k", self.k, 1, longest),
        ] {
            if !(least..=most).contains(&found) {
                let allowed = format!("{least} to {most}");
                return Err(value(NAME, parameter, found, &allowed));
            }
        }
        for ((buffer, rows, row), found) in [
            ("queries", self.queries, self.dim),
            ("targets", self.targets, self.dim),
            ("scores", self.queries, self.k),
            ("indices", self.queries, self.k),
        ]
        .into_iter()
        .zip(lengths)
        {
            length(NAME, buffer, rows.saturating_mul(row), found)?;
        }
        Ok(())
    }

    /// Targets of a chunk (a multiple of the tile, and not less than a list if there are several), and number of chunks.
    pub(super) fn chunks(self, multiprocessors: usize) -> (usize, usize) {
        let (groups, tiles) = (self.queries.div_ceil(TILE), self.targets.div_ceil(TILE));
        let wanted = (BLOCKS_EACH * multiprocessors)
            .div_ceil(groups)
            .clamp(1, MOST_CHUNKS);
        let chunk = TILE * tiles.div_ceil(wanted).max(self.k.div_ceil(TILE));
        (chunk, self.targets.div_ceil(chunk))
    }
}

/// A grid of full blocks.
pub(super) fn blocks(x: usize, y: usize) -> LaunchConfig {
    LaunchConfig {
        grid: [x as u32, y as u32, 1],
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
    }
}
