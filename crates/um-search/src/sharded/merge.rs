//! Lists of several shards, merged into one.

use crate::cosine_top_k::cpu::NONE;

/// Four bytes of a number, little-endian as every host of CUDA: lists of other ranks are merged from the bytes that came.
pub(super) type Word = [u8; 4];

/// The lists of a shard: `k` places for each query, the best first.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub scores: &'a [Word],
    pub indices: &'a [Word],
    pub k: usize,
    /// The global index of the shard's row 0.
    pub first: u32,
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

/// The key of a place that is in no list.
const END: u64 = u64::MAX;

impl List<'_> {
    /// The key of a place of a query, counted from the best; `END` behind the last that is filled.
    fn key(&self, query: usize, place: usize) -> u64 {
        if place == self.k {
            return END;
        }
        let at = query * self.k + place;
        let global = match u32::from_le_bytes(self.indices[at]) {
            NONE => NONE,
            index => self.first + index,
        };
        key(f32::from_le_bytes(self.scores[at]), global).unwrap_or(END)
    }
}

/// Writes the `k` best places of all lists for each query. Each list has one for each query; an index is in one of them.
pub(super) fn merge(lists: &[List<'_>], k: usize, scores: &mut [f32], indices: &mut [u32]) {
    // The key of the next place of each list, and that place.
    let (mut keys, mut places) = (vec![END; lists.len()], vec![0; lists.len()]);
    let results = scores.chunks_mut(k).zip(indices.chunks_mut(k));
    for (query, (scores, indices)) in results.enumerate() {
        places.fill(0);
        for (key, list) in keys.iter_mut().zip(lists) {
            *key = list.key(query, 0);
        }
        for (score, index) in scores.iter_mut().zip(indices) {
            (*score, *index) = (f32::NEG_INFINITY, NONE);
            let Some((best, &key)) = keys.iter().enumerate().min_by_key(|(_, key)| **key) else {
                continue;
            };
            if key != END {
                let (list, place) = (&lists[best], &mut places[best]);
                *score = f32::from_le_bytes(list.scores[query * list.k + *place]);
                *index = key as u32;
                *place += 1;
                keys[best] = list.key(query, *place);
            }
        }
    }
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
            let mut lists: Vec<_> = shards.iter().map(|(first, k, (scores, indices))| List { scores: bytemuck::cast_slice(scores), indices: bytemuck::cast_slice(indices), k: *k, first: *first as u32 }).collect();
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
