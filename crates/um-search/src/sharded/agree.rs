//! The ranks of a world make sure that they search for the same, before they search.

use super::gather::{HEAD, exchange, foreign};
use super::{Shard, check};
use crate::cosine_top_k::{TYPES, TargetScalar, TopKShape, type_index};
use crate::error::{Result, SearchError};
use crate::metric::Metric;
use crate::world::World;
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// Versions with the same number have the same lists and the same exchange of bytes.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Numbers that all ranks have alike.
const FIELDS: [&str; 8] = [
    "the length of the lists",
    "the elements of a row",
    "the number of queries",
    "the number of targets",
    "the element type of the queries",
    "the element type of the targets",
    "the metric",
    "the queries (their hash is shown)",
];

/// The fields and the number of the search, and the first row and number of rows of each shard.
type Terms = ([u64; 9], Vec<(usize, usize)>);

/// The number of the next search of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Checks the inputs of all ranks. `checked` is the check of this one. Returns a number that all ranks have for this search, and for no other;
/// `None`: there is one rank.
pub(super) fn agree<T: TargetScalar, Q: TargetScalar>(
    world: &dyn World,
    shape: TopKShape,
    metric: Metric,
    queries: &[Q],
    shards: &[Shard<'_, T>],
    checked: Result<()>,
) -> Result<Option<u64>> {
    let rows = |shard: &Shard<'_, T>| (shard.first, shard.rows.len() / shape.dim.max(1));
    let ranges: Vec<_> = shards.iter().map(rows).collect();
    if world.size() == 1 {
        return checked.and_then(|()| check::rows(shape.targets, ranges).map(|()| None));
    }
    let fields = [
        shape.k as u64,
        shape.dim as u64,
        shape.queries as u64,
        shape.targets as u64,
        type_index::<Q>() as u64,
        type_index::<T>() as u64,
        metric as u64,
        XxHash3_64::oneshot(bytemuck::cast_slice(queries)),
        NEXT.fetch_add(1, Ordering::Relaxed),
    ];
    let differ = |what, rank, words: [String; 2]| {
        let [found, expected] = words;
        SearchError::Disagreement {
            what,
            rank,
            found,
            expected,
        }
    };
    let own = XxHash3_64::oneshot(VERSION.as_bytes());
    let versions = |rank, versions: [u64; 2]| {
        let words = |version| if version == own { VERSION } else { "another" }.to_owned();
        differ("the version of um-search", rank, versions.map(words))
    };
    let mine = checked.map(|()| ((), encode(&(fields, ranges))));
    let ((), all) = exchange(world, own, mine, versions)?;
    let number = XxHash3_64::oneshot(&all.concat());
    let all = all.iter().enumerate();
    let all = all.map(|(rank, bytes)| decode(&bytes[HEAD..]).ok_or_else(|| foreign(rank)));
    let all: Vec<Terms> = all.collect::<Result<_>>()?;
    for (field, what) in FIELDS.into_iter().enumerate() {
        let expected = all[0].0[field];
        let values = all.iter().map(|(fields, _)| fields[field]);
        if let Some((rank, found)) = values.enumerate().find(|(_, value)| *value != expected) {
            let words = [found, expected].map(|value| in_words(field, value));
            return Err(differ(what, rank, words));
        }
    }
    let ranges = all.into_iter().flat_map(|(_, ranges)| ranges);
    check::rows(shape.targets, ranges.collect())?;
    Ok(Some(number))
}

fn in_words(field: usize, value: u64) -> String {
    match field {
        4 | 5 => TYPES.get(value as usize).unwrap_or(&"another").to_string(),
        6 if value == Metric::Cosine as u64 => format!("{:?}", Metric::Cosine),
        6 => format!("{:?}", Metric::InnerProduct),
        7 => format!("{value:016x}"),
        _ => value.to_string(),
    }
}

fn encode((fields, ranges): &Terms) -> Vec<u8> {
    let ranges = ranges.iter().flat_map(|(a, b)| [*a as u64, *b as u64]);
    let words = fields.iter().copied().chain(ranges);
    words.flat_map(u64::to_le_bytes).collect()
}

/// `None` for other bytes than those of [`encode`].
fn decode(bytes: &[u8]) -> Option<Terms> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (fields, ranges) = words.split_first_chunk()?;
    let (pairs, odd) = ranges.as_chunks::<2>();
    let is_whole = rest.is_empty() && odd.is_empty();
    let pairs = pairs.iter().map(|[a, b]| (*a as usize, *b as usize));
    is_whole.then(|| (*fields, pairs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let terms = ([1, 2, 3, 4, 0, 1, 1, 8, 9], vec![(0, 5), (5, 0)]);
        let whole = encode(&terms);
        for end in 0..whole.len() {
            // A part without its last shards is whole, too.
            let is_whole = end >= 72 && (end - 72).is_multiple_of(16);
            assert_eq!(decode(&whole[..end]).is_some(), is_whole, "{end}");
        }
        assert_eq!(decode(&whole), Some(terms));
    }
}
