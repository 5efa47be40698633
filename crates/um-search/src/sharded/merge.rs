//! Lists of several shards, merged into one.

use crate::cosine_top_k::cpu::NONE;

/// The lists of a shard: `k` places for each query, the best first.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub scores: &'a [f32],
    pub indices: &'a [u32],
    pub k: usize,
    /// The global index of the shard's row 0.
    pub first: u32,
}

/// A place of a list: its rank in the order, and its score.
#[derive(Clone, Copy)]
struct Place {
    key: u64,
    score: f32,
}

/// The place of a score and a global index in the order of lists, the lowest first: the higher score, for equal scores the lower index.
/// The two zeros are equal. `None`: it is in no list, as NaN and −∞.
fn key(score: f32, index: u32) -> Option<u64> {
    let is_listed = score > f32::NEG_INFINITY && index != NONE;
    is_listed.then(|| {
        // -0 + 0 is 0. Then the bits of numbers with the same sign have the order of the numbers.
        let bits = (score + 0.0).to_bits();
        let ascending = match bits >> 31 {
            0 => bits | 1 << 31,
            _ => !bits,
        };
        u64::from(!ascending) << 32 | u64::from(index)
    })
}

impl List<'_> {
    /// The places of a query that are filled.
    fn of(&self, query: usize) -> impl Iterator<Item = Place> {
        let places = query * self.k..(query + 1) * self.k;
        let scores = self.scores[places.clone()].iter();
        let pairs = scores.zip(&self.indices[places]);
        pairs.map_while(|(&score, &index)| {
            let global = match index {
                NONE => NONE,
                index => self.first + index,
            };
            key(score, global).map(|key| Place { key, score })
        })
    }
}

/// Writes the `k` best places of all lists for each query. Each list has one for each query; an index is in one of them.
pub(super) fn merge(lists: &[List<'_>], k: usize, scores: &mut [f32], indices: &mut [u32]) {
    let (mut best, mut merged) = (Vec::with_capacity(k), Vec::with_capacity(k));
    let results = scores.chunks_mut(k).zip(indices.chunks_mut(k));
    for (query, (scores, indices)) in results.enumerate() {
        best.clear();
        for list in lists {
            add(&mut best, list.of(query), k, &mut merged);
        }
        scores.fill(f32::NEG_INFINITY);
        indices.fill(NONE);
        for (place, (score, index)) in best.iter().zip(scores.iter_mut().zip(indices)) {
            (*score, *index) = (place.score, place.key as u32);
        }
    }
}

/// Merges the places of a list, which are in order, into the `k` best.
fn add(
    best: &mut Vec<Place>,
    list: impl Iterator<Item = Place>,
    k: usize,
    merged: &mut Vec<Place>,
) {
    let mut list = list.peekable();
    let last = best.last().filter(|_| best.len() == k);
    let is_better = |place: &Place| last.is_none_or(|last| place.key < last.key);
    if !list.peek().is_some_and(is_better) {
        return;
    }
    merged.clear();
    let mut old = best.iter().peekable();
    while merged.len() < k {
        let next = match (old.peek(), list.peek()) {
            (Some(old), Some(new)) if new.key < old.key => list.next(),
            (Some(_), _) => old.next().copied(),
            (None, _) => list.next(),
        };
        let Some(next) = next else { break };
        merged.push(next);
    }
    std::mem::swap(best, merged);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_is_total() {
        let scores = [f32::INFINITY, 2.0, 1e-40, 0.0, -1e-40, -3.0, f32::MIN];
        let keys = scores.map(|score| key(score, 7).unwrap());
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
        assert_eq!(key(-0.0, 7), key(0.0, 7));
        assert!(key(1.0, 6) < key(1.0, 7));
        for (score, index) in [
            (f32::NAN, 1),
            (-f32::NAN, 1),
            (f32::NEG_INFINITY, 1),
            (1.0, NONE),
        ] {
            assert_eq!(key(score, index), None);
        }
    }

    proptest! {
        /// Few different scores, so that many are equal, and NaN.
        #[test]
        fn any_split_in_any_order_has_the_lists_of_one(
            scores in prop::collection::vec(prop::sample::select(vec![0.0, -0.0, 1.0, 2.0, f32::NAN, f32::NEG_INFINITY]), 1..40),
            cuts in prop::collection::vec(0usize..40, 0..8),
            turn in 0usize..8,
            k in 1usize..12,
        ) {
            let list = |range: std::ops::Range<usize>, k: usize| {
                let (mut best, mut at) = (vec![f32::NEG_INFINITY; k], vec![NONE; k]);
                for (row, score) in scores[range].iter().enumerate() {
                    crate::cosine_top_k::cpu::insert(&mut best, &mut at, *score, row as u32);
                }
                (best, at)
            };
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(scores.len())).collect();
            cuts.extend([0, scores.len()]);
            cuts.sort_unstable();
            let shards = cuts.windows(2).map(|cut| (cut[0], k.min(cut[1] - cut[0]), cut[0]..cut[1]));
            let shards: Vec<_> = shards.filter(|(_, k, _)| *k > 0).map(|(first, k, range)| (first, k, list(range, k))).collect();
            let mut lists: Vec<_> = shards.iter().map(|(first, k, (scores, indices))| List { scores, indices, k: *k, first: *first as u32 }).collect();
            let count = lists.len().max(1);
            lists.rotate_left(turn % count);
            let (mut best, mut at) = (vec![7.0; k], vec![7; k]);
            merge(&lists, k, &mut best, &mut at);
            let (right, right_at) = list(0..scores.len(), k);
            let bits = |scores: &[f32]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!((bits(&best), at), (bits(&right), right_at));
        }
    }
}
