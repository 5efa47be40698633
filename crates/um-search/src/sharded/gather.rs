//! What the ranks of a world send to each other, and the lists of all.

use super::merge::{List, merge};
use crate::error::{Result, SearchError};
use crate::world::World;

/// The first bytes of each message. A number follows, which tells what the message is of, and then one of the two bytes.
const SEARCH: [u8; 8] = *b"umsearch";
/// What the rank found follows.
const FOUND: u8 = 0;
/// Its error follows, as text.
const FAILED: u8 = 1;

/// The number of bytes before what a rank found.
pub(super) const HEAD: usize = 17;

/// Sends the bytes that this rank found, or its error, and returns the messages of all ranks. `differ` is the error for a rank with another number
/// than rank 0.
pub(super) fn exchange<R>(
    world: &dyn World,
    number: u64,
    found: Result<(R, Vec<u8>)>,
    differ: impl FnOnce(usize, [u64; 2]) -> SearchError,
) -> Result<(R, Vec<Vec<u8>>)> {
    let mut sent = [SEARCH, number.to_le_bytes()].concat();
    match &found {
        Ok((_, bytes)) => {
            sent.push(FOUND);
            sent.extend_from_slice(bytes);
        }
        Err(error) => {
            sent.push(FAILED);
            sent.extend_from_slice(error.to_string().as_bytes());
        }
    }
    let all = all_gather(world, &sent);
    let ((own, _), all) = (found?, all?);
    let mut numbers = Vec::new();
    for (rank, bytes) in all.iter().enumerate() {
        let number = bytes.strip_prefix(&SEARCH).and_then(<[u8]>::first_chunk);
        numbers.push(u64::from_le_bytes(*number.ok_or_else(|| foreign(rank))?));
    }
    if let Some(rank) = numbers.iter().position(|number| *number != numbers[0]) {
        return Err(differ(rank, [numbers[rank], numbers[0]]));
    }
    for (rank, bytes) in all.iter().enumerate() {
        match bytes[HEAD - 1..].split_first() {
            Some((&FOUND, _)) => {}
            Some((&FAILED, reason)) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                return Err(SearchError::Rank { rank, reason });
            }
            _ => return Err(foreign(rank)),
        }
    }
    Ok((own, all))
}

/// Sends the lists of this rank, which have global indices, or its error, and merges the lists of all. With the lists goes the number of the
/// search: threads that share a world may come here in another order on each rank.
pub(super) fn gather<R>(
    world: &dyn World,
    (search, k): (u64, usize),
    searched: Result<R>,
    scores: &mut [f32],
    indices: &mut [u32],
) -> Result<R> {
    let own: [&[u8]; 2] = [bytemuck::cast_slice(scores), bytemuck::cast_slice(indices)];
    let found = searched.map(|searched| (searched, own.concat()));
    let (searched, all) = exchange(world, search, found, |rank, _| foreign(rank))?;
    let mut lists = Vec::new();
    for (rank, bytes) in all.iter().enumerate() {
        let (words, rest) = bytes[HEAD..].as_chunks();
        if words.len() != 2 * scores.len() || !rest.is_empty() {
            return Err(foreign(rank));
        }
        let (scores, indices) = words.split_at(scores.len());
        lists.push(List {
            scores,
            indices,
            k,
            first: 0,
        });
    }
    merge(&lists, k, scores, indices);
    Ok(searched)
}

/// All-gather, with one answer of each rank.
fn all_gather(world: &dyn World, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let call = "all_gather";
    let all = world
        .all_gather(bytes)
        .map_err(|cause| SearchError::World { call, cause })?;
    let (size, rank, answers) = (world.size(), world.rank(), all.len());
    // A transport that mixes up the ranks must not give wrong lists.
    if answers == size && all.get(rank).is_some_and(|own| own == bytes) {
        return Ok(all);
    }
    let cause =
        format!("{answers} answers for {size} ranks, and that of rank {rank} must be what it sent");
    let cause = cause.into();
    Err(SearchError::World { call, cause })
}

/// The error for bytes that are not of this search.
pub(super) fn foreign(rank: usize) -> SearchError {
    let cause = format!(
        "rank {rank} sent something else: all ranks call the same functions in the same order"
    );
    SearchError::World {
        call: "all_gather",
        cause: cause.into(),
    }
}
