//! Checks before a search: the inputs of this process, and the rows of all.

use super::{NAME, Shard};
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::{Result, SearchError, length};
use crate::metric::Metric;

/// Checks the inputs of this process. The lengths are those of the queries, the scores and the indices.
pub(super) fn shards<T: TargetScalar>(
    shape: TopKShape,
    metric: Metric,
    shards: &[Shard<'_, T>],
    devices: usize,
    (queries, scores, indices): (usize, usize, usize),
) -> Result<()> {
    let all = shape.targets.saturating_mul(shape.dim);
    shape.check(NAME, [queries, all, scores, indices])?;
    length(NAME, "the list of shards", devices, shards.len())?;
    for (number, shard) in shards.iter().enumerate() {
        let whole = shard.rows.len() / shape.dim * shape.dim;
        length(NAME, "the rows of a shard", whole, shard.rows.len())?;
        // The kernels add the squares of a row in an order that depends on it.
        let offset = shard.rows.as_ptr() as usize % (4 * size_of::<T>());
        let matters = metric == Metric::Cosine && shape.dim.is_multiple_of(4);
        if matters && whole > 0 && offset != 0 {
            return Err(SearchError::Value {
                kernel: NAME,
                parameter: "the bytes from a multiple of four elements to a shard's first row",
                found: offset,
                allowed: format!("0 (shard {number}), because the norms depend on it"),
            });
        }
        if let Some(prepared) = shard.prepared.filter(|known| known.metric() != metric) {
            let reason = format!(
                "shard {number} was prepared for {:?}, and the search is for {metric:?}",
                prepared.metric()
            );
            return Err(SearchError::Unsupported {
                kernel: NAME,
                reason,
            });
        }
    }
    Ok(())
}

/// Checks that the shards of all processes have each row once. A shard is its first row and its number of rows.
pub(super) fn rows(targets: usize, mut shards: Vec<(usize, usize)>) -> Result<()> {
    shards.retain(|(_, rows)| *rows > 0);
    shards.sort_unstable();
    // The place after the last row: no rows begin there.
    shards.push((targets, 0));
    let mut next = 0usize;
    for (first, rows) in shards {
        if first != next {
            return Err(SearchError::Value {
                kernel: NAME,
                parameter: "the row at which a shard begins, or the last one ends,",
                found: first.max(next),
                allowed: format!(
                    "{}, so that each of the {targets} rows is in one shard",
                    first.min(next)
                ),
            });
        }
        next = next.saturating_add(rows);
    }
    Ok(())
}
