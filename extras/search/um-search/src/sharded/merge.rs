//! Lists of several shards, merged into one.

use crate::cosine_top_k::cpu::NONE;

/// The lists of a shard or of a rank.
pub(super) struct List {
    /// The scores and then the indices, each `[queries, k]`, the best first: merged from the bytes that came from other ranks, little-endian as
    /// every host of CUDA.
    pub bytes: Vec<u8>,
    pub k: usize,
    /// The global index of the row 0.
    pub first: u32,
}

impl List {
    pub fn new(scores: &[f32], indices: &[u32], k: usize, first: u32) -> Self {
        let bytes: [&[u8]; 2] = [bytemuck::cast_slice(scores), bytemuck::cast_slice(indices)];
        let bytes = bytes.concat();
        Self { bytes, k, first }
    }

    /// What is at a place of a query, counted from the best.
    fn at(&self, query: usize, place: usize) -> Head {
        if place >= self.k {
            return EMPTY;
        }
        let (words, _) = self.bytes.as_chunks();
        let at = query * self.k + place;
        let score = f32::from_le_bytes(words[at]);
        match u32::from_le_bytes(words[words.len() / 2 + at]) {
            index if index != NONE && score > f32::NEG_INFINITY => {
                // -0 + 0 is 0. Then this is the order of the numbers, as in `f32::total_cmp`.
                let bits = (score + 0.0).to_bits() as i32;
                let order = bits ^ ((bits >> 31) as u32 >> 1) as i32;
                let index = self.first + index;
                (i64::from(!order) << 32 | i64::from(index), score)
            }
            _ => EMPTY,
        }
    }
}

/// A place of a list: a number that is lower if the score is higher, or, for equal scores, the global index is lower; and the score. The low half of
/// the number is the index.
type Head = (i64, f32);

/// A place without a row: behind all others.
const EMPTY: Head = (i64::MAX, f32::NEG_INFINITY);

/// Writes the `k` best places of all lists for each query. Each list has one for each query; an index is in one of them.
pub(super) fn merge(lists: &[List], k: usize, scores: &mut [f32], indices: &mut [u32]) {
    // The next place of each list, and what is there.
    let (mut places, mut heads) = (vec![0; lists.len()], vec![EMPTY; lists.len()]);
    let results = scores.chunks_mut(k).zip(indices.chunks_mut(k));
    for (query, (scores, indices)) in results.enumerate() {
        places.fill(0);
        for (head, list) in heads.iter_mut().zip(lists) {
            *head = list.at(query, 0);
        }
        for (score, index) in scores.iter_mut().zip(indices) {
            let (mut best, mut least) = (0, i64::MAX);
            for (list, (key, _)) in heads.iter().enumerate() {
                if *key < least {
                    (best, least) = (list, *key);
                }
            }
            (*score, *index) = (heads[best].1, least as u32);
            places[best] += 1;
            heads[best] = lists[best].at(query, places[best]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosine_top_k::cpu::insert;

    /// The best of the rows that are multiples of `step`, from `first` on.
    fn list(scores: &[f32], first: usize, step: usize, k: usize) -> List {
        let (mut best, mut at) = (vec![f32::NEG_INFINITY; k], vec![NONE; k]);
        for row in (first..scores.len()).step_by(step) {
            insert(&mut best, &mut at, scores[row], row as u32);
        }
        List::new(&best, &at, k, 0)
    }

    #[test]
    fn lists_are_those_of_all_rows() {
        let (tiny, inf, nan) = (1e-40, f32::INFINITY, f32::NAN);
        let scores = [2.0, -0.0, nan, inf, -2.0, tiny, -nan, -inf, 0.0, -tiny];
        // Each is in two rows of each list.
        let scores = scores.repeat(6);
        for k in [1, 7, 40, 60] {
            let lists = [2, 0, 1].map(|first| list(&scores, first, 3, k.min(20)));
            let (mut best, mut at) = (vec![7.0; k], vec![7; k]);
            merge(&lists, k, &mut best, &mut at);
            let right = list(&scores, 0, 1, k).bytes;
            assert!(List::new(&best, &at, k, 0).bytes == right, "{best:?}");
        }
    }
}
