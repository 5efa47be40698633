//! A limit of device memory, and what fits into it.

use super::NAME;
use super::plan::Plan;
use super::prepared::PreparedTargets;
use super::room::Room;
use super::tiles::{BLOCK, Format};
use crate::cosine_top_k::{TopKShape, list_bytes};
use crate::error::SearchError;

/// Bytes of device memory that a search may use. A quarter is for its own memory, the rest for prepared targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub bytes: usize,
}

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self { bytes }
    }

    fn for_targets(self) -> usize {
        self.bytes - self.bytes / 4
    }

    /// Rows of a piece: all, or as many whole blocks as fit twice; `None`: not even one.
    pub fn piece_rows(self, rows: usize, dim: usize, format: Format) -> Option<usize> {
        if PreparedTargets::bytes(rows, dim, format) <= self.for_targets() {
            return Some(rows);
        }
        let fits = |blocks: usize| {
            PreparedTargets::bytes(blocks.saturating_mul(BLOCK), dim, format)
                <= self.for_targets() / 2
        };
        // The number of blocks between the last that fits and the first that does not.
        let (mut most, mut too_many) = (0, rows.div_ceil(BLOCK) + 1);
        while too_many - most > 1 {
            let middle = most.midpoint(too_many);
            if fits(middle) {
                most = middle;
            } else {
                too_many = middle;
            }
        }
        (most > 0).then_some(most * BLOCK)
    }

    /// The least limit for rows of `dim` elements.
    pub fn least(dim: usize, format: Format) -> usize {
        PreparedTargets::bytes(BLOCK, dim, format)
            .saturating_mul(2)
            .div_ceil(3)
            .saturating_mul(4)
            + 4
    }

    /// The most queries of a pass that fit beside `held` bytes.
    pub fn batch(
        self,
        shape: TopKShape,
        held: usize,
        multiprocessors: usize,
        format: Format,
    ) -> Result<usize, SearchError> {
        let needs = |queries: usize| {
            let shape = TopKShape { queries, ..shape };
            held.saturating_add(search_bytes(shape, multiprocessors, format))
        };
        let mut batch = Plan::new(shape, format).batch.min(shape.queries);
        while needs(batch) > self.bytes {
            if batch == 1 {
                let purpose = format!("the search for one query with lists of {}", shape.k);
                return Err(too_small(self.bytes, needs(1), &purpose));
            }
            batch = batch.div_ceil(2);
        }
        Ok(batch)
    }
}

/// Bytes of device memory for the search of one batch, besides its targets.
fn search_bytes(shape: TopKShape, multiprocessors: usize, format: Format) -> usize {
    let wide = shape.queries.saturating_mul(shape.dim).saturating_mul(4);
    let lists = shape.queries.saturating_mul(shape.k).saturating_mul(8);
    [
        Room::bytes(shape, Plan::new(shape, format), format),
        list_bytes(shape, multiprocessors),
        wide,
        lists,
    ]
    .into_iter()
    .fold(0, usize::saturating_add)
}

pub(super) fn too_small(found: usize, least: usize, purpose: &str) -> SearchError {
    SearchError::Value {
        kernel: NAME,
        parameter: "budget_bytes",
        found,
        allowed: format!("at least {least} bytes, for {purpose}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_large_as_the_limit_allows() {
        let formats = [Format::F16, Format::Int8];
        for (dim, format) in [1, 64, 65, 768, 4096]
            .into_iter()
            .flat_map(|dim| formats.map(|f| (dim, f)))
        {
            for rows in [1, 256, 257, 1000, 1_000_000] {
                for bytes in [0, 1000, 1 << 20, 10 << 20, 1 << 30, 1 << 40] {
                    let budget = Budget::new(bytes);
                    let Some(piece) = budget.piece_rows(rows, dim, format) else {
                        assert!(bytes < Budget::least(dim, format), "{dim} {rows} {bytes}");
                        continue;
                    };
                    let slots = if piece < rows { 2 } else { 1 };
                    let held = slots * PreparedTargets::bytes(piece, dim, format);
                    assert!(held <= bytes - bytes / 4, "{dim} {rows} {bytes}");
                    assert!(piece == rows || piece.is_multiple_of(BLOCK));
                }
            }
            let least = Budget::least(dim, format);
            assert!(
                Budget::new(least).piece_rows(1_000_000, dim, format) == Some(BLOCK),
                "{dim}"
            );
        }
    }
}
