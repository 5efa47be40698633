//! The ranks of a world make sure that they search for the same, before they search.

use super::check;
use super::gather::{exchange, foreign};
use crate::cosine_top_k::{TYPES, TargetScalar, TopKShape, type_index};
use crate::error::{Result, SearchError};
use crate::metric::Metric;
use crate::world::World;
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// The number of the next search of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Checks the inputs of all ranks. `checked` is the check of this one, and `shards` the first row and the number of rows of each of its shards.
/// Returns a number that all ranks have for this search, and for no other.
pub(super) fn agree<T: TargetScalar, Q: TargetScalar>(
    world: &dyn World,
    shape: TopKShape,
    metric: Metric,
    queries: &[Q],
    shards: &[(usize, usize)],
    checked: Result<()>,
) -> Result<u64> {
    let hash = XxHash3_64::oneshot(bytemuck::cast_slice(queries));
    let [of_queries, of_targets] = [type_index::<Q>(), type_index::<T>()].map(|of| TYPES[of]);
    // All ranks have these alike. Every version sends its own first; versions with the same name have the same lists and messages.
    let terms = [
        ("the version of um-search", env!("CARGO_PKG_VERSION").into()),
        ("the length of the lists", shape.k.to_string()),
        ("the elements of a row", shape.dim.to_string()),
        ("the number of queries", shape.queries.to_string()),
        ("the number of targets", shape.targets.to_string()),
        ("the element type of the queries", of_queries.to_owned()),
        ("the element type of the targets", of_targets.to_owned()),
        ("the metric", format!("{metric:?}")),
        ("the queries (their hash is shown)", format!("{hash:016x}")),
    ];
    let values = terms.each_ref().map(|(_, value)| &**value).join("\n");
    let in_words = |(first, rows): &(usize, usize)| format!("{first}+{rows}");
    let shards = Vec::from_iter(shards.iter().map(in_words)).join(" ");
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("{values}\n{shards}\n{next}").into_bytes();
    let tag = u64::from_le_bytes(*b"umsearch");
    let ((), all) = exchange(world, tag, checked.map(|()| (text, ())))?;
    let lines = |bytes| Vec::from_iter(str::from_utf8(bytes).unwrap_or_default().lines());
    let texts: Vec<Vec<&str>> = all.iter().map(|bytes| lines(bytes)).collect();
    let line = |rank: usize, line| texts[rank].get(line).copied().ok_or_else(|| foreign(rank));
    for (number, (what, _)) in terms.iter().enumerate() {
        let expected = line(0, number)?;
        for rank in 1..texts.len() {
            let found = line(rank, number)?;
            if found != expected {
                return Err(SearchError::Disagreement {
                    what,
                    rank,
                    found: found.to_owned(),
                    expected: expected.to_owned(),
                });
            }
        }
    }
    let mut shards = Vec::new();
    for rank in 0..texts.len() {
        for shard in line(rank, terms.len())?.split_whitespace() {
            let (first, rows) = shard.split_once('+').unwrap_or_default();
            let (Ok(first), Ok(rows)) = (first.parse(), rows.parse()) else {
                return Err(foreign(rank));
            };
            shards.push((first, rows));
        }
    }
    check::rows(shape.targets, shards)?;
    Ok(XxHash3_64::oneshot(&all.concat()))
}
