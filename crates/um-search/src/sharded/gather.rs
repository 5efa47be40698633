//! The lists of all ranks.

use super::agree::{all_gather, foreign};
use super::merge::{List, merge};
use crate::error::{Result, SearchError};
use crate::world::World;

/// The first byte of what a rank sends.
const FOUND: u8 = 0;
const FAILED: u8 = 1;

/// Sends the lists of this rank, which have global indices, or its error, and merges the lists of all. With the lists goes the hash of what
/// they are for: threads that share a world may search in another order on each rank.
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
    let searched = searched?;
    let mut lists = Vec::new();
    for (rank, bytes) in all?.iter().enumerate() {
        match bytes.split_first() {
            Some((&FOUND, found)) if found.len() == 8 + 8 * scores.len() => {
                match found.split_at(8) {
                    (of, lists_of) if of == search.to_le_bytes() => lists.push(decode(lists_of)),
                    _ => return Err(foreign(rank)),
                }
            }
            Some((&FAILED, reason)) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Err(SearchError::Rank { rank, reason });
            }
            _ => return Err(foreign(rank)),
        }
    }
    let lists = lists.iter().map(|(scores, indices)| List {
        scores,
        indices,
        k,
        first: 0,
    });
    merge(&lists.collect::<Vec<_>>(), k, scores, indices);
    Ok(searched)
}

fn encode(search: u64, scores: &[f32], indices: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + 8 * scores.len());
    bytes.push(FOUND);
    bytes.extend(search.to_le_bytes());
    bytes.extend(scores.iter().flat_map(|score| score.to_le_bytes()));
    bytes.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    bytes
}

fn decode(bytes: &[u8]) -> (Vec<f32>, Vec<u32>) {
    let (words, _) = bytes.as_chunks::<4>();
    let (scores, indices) = words.split_at(words.len() / 2);
    (
        scores
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect(),
        indices
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect(),
    )
}
