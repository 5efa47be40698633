//! The shapes of a batch, and the grids of its kernels.

use crate::error::{Result, SearchError, length};
use cuda_um::LaunchConfig;

/// Queries and targets of a tile; cuda/cosine_top_k.cu uses the same numbers.
const TILE: usize = 128;
const THREADS: u32 = 256;
/// The longest list: candidates are inserted one by one, which is slow for long lists.
const LONGEST: usize = 1024;
/// Shared memory that the merge needs for each chunk.
const HEAD_BYTES: u32 = 10;
/// Their heads fit in the 48 KiB of shared memory that a block always has.
const MOST_CHUNKS: usize = 4 << 10;

/// Queries for which cuda/cosine_top_k_few.cu and cuda/cosine_top_k_few_80.cu have kernels.
const FEW: usize = 12;

/// The longest row: the kernels count its stages of 16 elements with 32 bits.
const MOST_DIM: u64 = 16 * u32::MAX as u64;

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
    pub(crate) fn check(self, kernel: &'static str, lengths: [usize; 4]) -> Result<()> {
        self.check_sizes(kernel)?;
        let rows = [self.queries, self.targets, self.queries, self.queries];
        let elements = [self.dim, self.dim, self.k, self.k];
        let names = ["queries", "targets", "scores", "indices"];
        for (i, name) in names.into_iter().enumerate() {
            length(
                kernel,
                name,
                rows[i].saturating_mul(elements[i]),
                lengths[i],
            )?;
        }
        Ok(())
    }

    fn check_sizes(self, kernel: &'static str) -> Result<()> {
        let refuse = |parameter, found, allowed| {
            Err(SearchError::Value {
                kernel,
                parameter,
                found,
                allowed,
            })
        };
        // A target's index is a u32, and one value marks an empty place. A grid has at most 2^31 - 1 blocks, here one for each
        // query.
        let most = (u32::MAX - 1) as usize;
        let most_queries = i32::MAX as usize;
        match self {
            Self { dim: 0, .. } => refuse("dim", 0, "at least 1".to_owned()),
            Self { dim, .. } if dim as u64 > MOST_DIM => {
                refuse("dim", dim, format!("at most {MOST_DIM}"))
            }
            Self { targets, .. } if targets > most => {
                refuse("targets", targets, format!("at most {most}"))
            }
            Self { queries, .. } if queries > most_queries => {
                refuse("queries", queries, format!("at most {most_queries}"))
            }
            Self { k, targets, .. } if k == 0 || k > targets.min(LONGEST) => refuse(
                "k",
                k,
                format!(
                    "1 to {} (there are {targets} targets)",
                    targets.min(LONGEST)
                ),
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn partial_config(self, chunks: usize) -> LaunchConfig {
        LaunchConfig {
            grid: [self.queries.div_ceil(TILE) as u32, chunks as u32, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
        }
    }

    pub(super) fn merge_config(self, chunks: usize) -> LaunchConfig {
        LaunchConfig {
            grid: [self.queries as u32, 1, 1],
            block: [32, 1, 1],
            shared_bytes: HEAD_BYTES * chunks as u32,
        }
    }

    /// Targets of a chunk (a multiple of the tile), and number of chunks. Each multiprocessor gets a few blocks, and about the
    /// same number of tiles.
    pub(super) fn chunks(self, multiprocessors: usize) -> (usize, usize) {
        let (groups, tiles) = (self.queries.div_ceil(TILE), self.targets.div_ceil(TILE));
        // Half of the possible number, because rounding may double it.
        let wanted = (4 * multiprocessors)
            .div_ceil(groups)
            .clamp(1, tiles.min(MOST_CHUNKS / 2));
        // Long chunks are fewer. Short chunks may spread better, but they are not shorter than their list.
        let long = tiles.div_ceil(wanted);
        let short = (tiles / wanted).max(self.k.div_ceil(TILE)).min(long);
        let busiest = |tiles_each: usize| {
            (groups * tiles.div_ceil(tiles_each)).div_ceil(multiprocessors) * tiles_each
        };
        let better = busiest(short) < busiest(long);
        let chunk = TILE * if better { short } else { long };
        (chunk, self.targets.div_ceil(chunk))
    }
}

/// True if the kernels for few queries are faster: with few targets, most multiprocessors would have nothing to do.
pub(crate) fn is_few(shape: TopKShape) -> bool {
    shape.queries <= FEW && shape.targets >= 16 << 10
}

/// Bytes of device memory for the lists of each query and chunk.
pub(crate) fn list_bytes(shape: TopKShape, multiprocessors: usize) -> usize {
    let (_, chunks) = shape.chunks(multiprocessors);
    let places = shape.queries.saturating_mul(chunks);
    places.saturating_mul(shape.k).saturating_mul(8)
}

/// One warp for each row.
pub(crate) fn warps(rows: usize) -> LaunchConfig {
    LaunchConfig {
        grid: [rows.div_ceil(8) as u32, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(multiprocessors: usize, queries: usize, targets: usize, k: usize) -> (usize, usize) {
        let dim = 768;
        let shape = TopKShape {
            queries,
            targets,
            dim,
            k,
        };
        shape.chunks(multiprocessors)
    }

    #[test]
    fn chunks_cover_the_targets_and_can_be_merged() {
        let most = u32::MAX as usize - 1;
        for multiprocessors in [1, 6, 132, 160, 100_000] {
            for queries in [1, 128, 129, 1000, 1 << 20] {
                for targets in [1, 128, 129, 1000, 9_000, 1_000_000, 3_000_000, most] {
                    for k in [1, 10, 1024] {
                        let (chunk, chunks) = chunks(multiprocessors, queries, targets, k);
                        assert!(chunk.is_multiple_of(TILE) && (1..=MOST_CHUNKS).contains(&chunks));
                        assert!(chunk * chunks >= targets && chunk * (chunks - 1) < targets);
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_spread_over_the_multiprocessors() {
        assert_eq!(chunks(132, 1000, 1000, 10), (TILE, 8));
        // With two tiles in a chunk there would be 320 blocks, and some multiprocessors would have three: six tiles. With one
        // tile they have five.
        assert_eq!(chunks(132, 1000, 10_000, 10), (TILE, 79));
        assert_eq!(chunks(132, 1000, 10_000, 1000), (2 * TILE, 40));
        assert_eq!(chunks(132, 1000, 100_000, 10), (12 * TILE, 66));
        assert_eq!(chunks(132, 1000, 1_000_000, 10), (119 * TILE, 66));
    }
}
