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

/// A place without a row: behind all others.
const EMPTY: (f32, u32) = (f32::NEG_INFINITY, NONE);

impl List {
    pub fn new(scores: &[f32], indices: &[u32], k: usize, first: u32) -> Self {
        let bytes: [&[u8]; 2] = [bytemuck::cast_slice(scores), bytemuck::cast_slice(indices)];
        let bytes = bytes.concat();
        Self { bytes, k, first }
    }

    /// The score and the global index at a place of a query, counted from the best.
    fn at(&self, query: usize, place: usize) -> (f32, u32) {
        if place >= self.k {
            return EMPTY;
        }
        let (words, _) = self.bytes.as_chunks();
        let (scores, indices) = words.split_at(words.len() / 2);
        let at = query * self.k + place;
        match u32::from_le_bytes(indices[at]) {
            NONE => EMPTY,
            index => (f32::from_le_bytes(scores[at]), self.first + index),
        }
    }
}

/// The order of a list: the higher score, for equal scores the lower index. The zeros are equal, and NaN is before nothing.
fn is_before((score, index): (f32, u32), (other, behind): (f32, u32)) -> bool {
    (score > other) | ((score == other) & (index < behind))
}

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
            let mut best = 0;
            for other in 1..lists.len() {
                if is_before(heads[other], heads[best]) {
                    best = other;
                }
            }
            (*score, *index) = heads[best];
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
