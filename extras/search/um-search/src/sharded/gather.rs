//! What the ranks of a world send to each other, and the lists of all.

use super::merge::{List, merge};
use crate::error::{Result, SearchError};
use crate::world::World;

/// Sends the bytes that this rank found, or its error, and returns those that each rank found. All ranks have the same tag. A message ends with the
/// sum of it and the rank, so that a transport that mixes up the ranks gives no wrong lists; for an error the bits of the sum are inverted.
pub(super) fn exchange<R>(
    world: &dyn World,
    tag: u64,
    found: Result<(Vec<u8>, R)>,
) -> Result<(R, Vec<Vec<u8>>)> {
    let (size, rank) = (world.size(), world.rank());
    let end_of = |rank: usize| tag.wrapping_add(rank as u64);
    let (mut sent, end, own) = match found {
        Ok((bytes, own)) => (bytes, end_of(rank), Ok(own)),
        Err(error) => (error.to_string().into_bytes(), !end_of(rank), Err(error)),
    };
    sent.extend(end.to_le_bytes());
    let all = world.all_gather(&sent);
    let own = own?;
    let mut all = all.map_err(failed)?;
    let answers = all.len();
    if answers != size || all.get(rank) != Some(&sent) {
        let cause = format!(
            "{answers} answers for {size} ranks, and that of rank {rank} must be what it sent"
        );
        return Err(failed(cause.into()));
    }
    for (rank, bytes) in all.iter_mut().enumerate() {
        let (found, end) = bytes.split_last_chunk().ok_or_else(|| foreign(rank))?;
        let (len, end) = (found.len(), u64::from_le_bytes(*end));
        if end == !end_of(rank) {
            let reason = String::from_utf8_lossy(found).into_owned();
            return Err(SearchError::Rank { rank, reason });
        } else if end != end_of(rank) {
            return Err(foreign(rank));
        }
        bytes.truncate(len);
    }
    Ok((own, all))
}

/// Sends the lists of this rank, which have global indices, or its error, and merges the lists of all. The tag is the number of the search: threads
/// that share a world may come here in another order on each rank.
pub(super) fn gather<R>(
    world: &dyn World,
    tag: u64,
    k: usize,
    searched: Result<R>,
    scores: &mut [f32],
    indices: &mut [u32],
) -> Result<R> {
    let own = |found| (List::new(scores, indices, k, 0).bytes, found);
    let (found, all) = exchange(world, tag, searched.map(own))?;
    let is_other = |bytes: &Vec<u8>| bytes.len() != size_of_val(scores) + size_of_val(indices);
    if let Some(rank) = all.iter().position(is_other) {
        return Err(foreign(rank));
    }
    let lists = all.into_iter().map(|bytes| List { bytes, k, first: 0 });
    merge(&lists.collect::<Vec<_>>(), k, scores, indices);
    Ok(found)
}

fn failed(cause: Box<dyn std::error::Error + Send + Sync>) -> SearchError {
    let call = "all_gather";
    SearchError::World { call, cause }
}

/// The error for bytes that are not of this search.
pub(super) fn foreign(rank: usize) -> SearchError {
    let cause = "sent something else: all ranks call the same functions in the same order";
    failed(format!("rank {rank} {cause}").into())
}
