//! The ranks of a world make sure that they search for the same, before they search.

use super::{Shard, check};
use crate::cosine_top_k::{TYPES, TargetScalar, TopKShape, type_index};
use crate::error::{Result, SearchError};
use crate::metric::Metric;
use crate::world::World;
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// The first word of what a rank sends.
const SEARCH: u64 = u64::from_le_bytes(*b"umsearch");

/// Versions with the same number have the same lists and the same exchange of bytes.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Fields that all ranks have alike, after the first word and the hash of the version.
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

/// The number of the next search of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a rank sends.
enum Sent {
    /// It cannot search, for this reason.
    Refused(String),
    /// The fields and the number of the search, and the first row and number of rows of each shard.
    Terms([u64; 9], Vec<(usize, usize)>),
}

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
    let ranges = shards.iter();
    let rows = |shard: &Shard<'_, T>| (shard.first, shard.rows.len() / shape.dim.max(1));
    let ranges: Vec<_> = ranges.map(rows).collect();
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
    let mine = match &checked {
        Ok(()) => Sent::Terms(fields, ranges),
        Err(error) => Sent::Refused(error.to_string()),
    };
    let all = all_gather(world, &mine.encode())?;
    // Another version may send anything after the number of its version.
    let versions: Vec<_> = all.iter().map(|sent| prefix(sent)).collect();
    if let Some(rank) = versions.iter().position(|version| *version != versions[0]) {
        let words = |prefix: &Option<u64>| match prefix {
            Some(version) if *version == own_version() => VERSION.to_owned(),
            Some(_) => "another".to_owned(),
            None => "no search".to_owned(),
        };
        return Err(SearchError::Disagreement {
            what: "the version of um-search",
            rank,
            found: words(&versions[rank]),
            expected: words(&versions[0]),
        });
    }
    let decode = |(rank, bytes): (usize, &Vec<u8>)| Sent::decode(bytes).ok_or(rank);
    let sent: std::result::Result<Vec<_>, _> = all.iter().enumerate().map(decode).collect();
    let sent = sent.map_err(foreign)?;
    checked?;
    compare(&sent)?;
    let ranges = sent.into_iter().flat_map(|sent| match sent {
        Sent::Terms(_, ranges) => ranges,
        Sent::Refused(_) => Vec::new(),
    });
    check::rows(shape.targets, ranges.collect())?;
    Ok(Some(XxHash3_64::oneshot(&all.concat())))
}

/// Compares all ranks with rank 0.
fn compare(sent: &[Sent]) -> Result<()> {
    let mut terms = Vec::new();
    for (rank, sent) in sent.iter().enumerate() {
        match sent {
            Sent::Terms(fields, _) => terms.push(fields),
            Sent::Refused(reason) => {
                let reason = reason.clone();
                return Err(SearchError::Rank { rank, reason });
            }
        }
    }
    for (field, what) in FIELDS.into_iter().enumerate() {
        let values = terms.iter().map(|fields| fields[field]);
        if let Some((rank, found)) = values.enumerate().find(|(_, of)| *of != terms[0][field]) {
            return Err(SearchError::Disagreement {
                what,
                rank,
                found: in_words(field, found),
                expected: in_words(field, terms[0][field]),
            });
        }
    }
    Ok(())
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

fn own_version() -> u64 {
    XxHash3_64::oneshot(VERSION.as_bytes())
}

impl Sent {
    fn encode(&self) -> Vec<u8> {
        let mut words = vec![SEARCH, own_version()];
        match self {
            Self::Refused(reason) => {
                words.push(1);
                let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
                bytes.extend_from_slice(reason.as_bytes());
                return bytes;
            }
            Self::Terms(fields, ranges) => {
                words.push(0);
                words.extend_from_slice(fields);
                words.extend(ranges.iter().flat_map(|(a, b)| [*a as u64, *b as u64]));
            }
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None` for other bytes than those of [`encode`](Self::encode) of this version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        prefix(bytes)?;
        if words.by_ref().nth(2)? == 1 {
            let reason = String::from_utf8_lossy(&bytes[24..]);
            return Some(Self::Refused(reason.into_owned()));
        }
        let mut fields = [0; 9];
        for field in &mut fields {
            *field = words.next()?;
        }
        let ranges: Vec<_> = words.map(usize::try_from).collect::<Result<_, _>>().ok()?;
        let (pairs, odd) = ranges.as_chunks::<2>();
        let is_whole = rest.is_empty() && odd.is_empty();
        is_whole.then(|| Self::Terms(fields, pairs.iter().map(|[a, b]| (*a, *b)).collect()))
    }
}

/// The hash of the version of a rank; `None`: it sent something else.
fn prefix(bytes: &[u8]) -> Option<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    let [first, version, ..] = words else {
        return None;
    };
    let is_search = u64::from_le_bytes(*first) == SEARCH;
    is_search.then(|| u64::from_le_bytes(*version))
}

/// All-gather, with one answer of each rank.
pub(super) fn all_gather(world: &dyn World, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let call = "all_gather";
    let all = world
        .all_gather(bytes)
        .map_err(|cause| SearchError::World { call, cause })?;
    let (size, rank) = (world.size(), world.rank());
    // A transport that mixes up the ranks must not give wrong lists.
    let is_right = all.len() == size && all.get(rank).is_some_and(|own| own == bytes);
    match is_right {
        true => Ok(all),
        false => Err(SearchError::World {
            call,
            cause: format!(
                "{} answers for {size} ranks, and that of rank {rank} must be what it sent",
                all.len()
            )
            .into(),
        }),
    }
}

/// The error for bytes that are not of a search.
pub(super) fn foreign(rank: usize) -> SearchError {
    SearchError::World {
        call: "all_gather",
        cause: format!(
            "rank {rank} sent something else: all ranks call the same functions in the same order"
        )
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let whole = Sent::Terms([1, 2, 3, 4, 0, 1, 1, 8, 9], vec![(0, 5), (5, 0)]).encode();
        for end in 0..whole.len() {
            // A part without its last shards is whole, too.
            let is_whole = end >= 96 && (end - 96).is_multiple_of(16);
            assert_eq!(Sent::decode(&whole[..end]).is_some(), is_whole, "{end}");
        }
        let Some(Sent::Terms(fields, ranges)) = Sent::decode(&whole) else {
            panic!("refused");
        };
        assert_eq!((fields[7], &ranges[..]), (8, &[(0, 5), (5, 0)][..]));
        let refused = Sent::Refused("no".to_owned()).encode();
        assert!(matches!(Sent::decode(&refused), Some(Sent::Refused(why)) if why == "no"));
        assert!(Sent::decode(&[0; 128]).is_none());
    }
}
