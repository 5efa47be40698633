//! The lists of all ranks.

use super::agree::{all_gather, foreign};
use super::merge::{List, merge};
use crate::error::{Result, SearchError};
use crate::world::World;

/// The first byte of what a rank sends.
const FOUND: u8 = 0;
const FAILED: u8 = 1;

/// Sends the lists of this rank, which have global indices, or its error, and merges the lists of all. With the lists goes the number of the
/// search: threads that share a world may come here in another order on each rank.
pub(super) fn gather<R>(
    world: &dyn World,
    (search, k): (u64, usize),
    searched: Result<R>,
    scores: &mut [f32],
    indices: &mut [u32],
) -> Result<R> {
    let bytes = match &searched {
        Ok(_) => encode(search, scores, indices),
        Err(error) => [&[FAILED], error.to_string().as_bytes()].concat(),
    };
    let all = all_gather(world, &bytes);
    let (searched, all) = (searched?, all?);
    let mut lists = Vec::new();
    for (rank, bytes) in all.iter().enumerate() {
        match bytes.split_first() {
            Some((&FAILED, reason)) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Err(SearchError::Rank { rank, reason });
            }
            Some((&FOUND, found)) if found.len() == 8 + 8 * scores.len() => {
                let (of, words) = found.split_at(8);
                if of != search.to_le_bytes() {
                    return Err(foreign(rank));
                }
                let (words, _) = words.as_chunks();
                let (scores, indices) = words.split_at(scores.len());
                lists.push(List {
                    scores,
                    indices,
                    k,
                    first: 0,
                });
            }
            _ => return Err(foreign(rank)),
        }
    }
    merge(&lists, k, scores, indices);
    Ok(searched)
}

fn encode(search: u64, scores: &[f32], indices: &[u32]) -> Vec<u8> {
    let words: [&[u8]; 2] = [bytemuck::cast_slice(scores), bytemuck::cast_slice(indices)];
    [&[FOUND], &search.to_le_bytes()[..], words[0], words[1]].concat()
}
