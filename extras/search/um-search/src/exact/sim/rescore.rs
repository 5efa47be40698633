//! Scores of the candidates in single precision.

use super::candidates::Candidates;
use super::exact_scores::ExactScores;
use super::scores::bound;
use crate::cosine_top_k::cpu::{NONE, Scalar, insert};
use crate::reference::{Outcome, size};
use cuda_um_sim::{LaunchContext, ReferenceError};

/// Candidates that a block scores at a time; with more, the exact scores of the best give a better threshold first.
const ROWS: usize = 64;

pub(super) fn rescore<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (query_count, dim) = (launch.grid()[0] as usize, size(launch, 13)?);
    let limits = launch.value::<u64>(14)?;
    let capacity = (limits & 0xf_ffff) as usize;
    let most = (limits >> 20 & 0xffff) as usize;
    let most_special = (limits >> 36 & 0xfff) as usize;
    let k = (limits >> 48) as usize;
    let counts = launch.slice(6, query_count)?;
    let kept = launch.slice(7, query_count * capacity)?;
    let candidates = Candidates::of(launch, counts, kept, bound(launch, 15)?)?;
    let specials = launch.slice::<u32>(8, 1 + most_special)?;
    let given_up = launch.slice_mut::<u32>(9, 1 + query_count)?;
    let sums = launch.slice_mut::<u64>(10, 3)?;
    let special_count = specials[0] as usize;
    let specials = &specials[1..][..special_count.min(most_special)];
    let end = specials.iter().map(|row| *row as usize + 1).max();
    let end = candidates.end().max(end.unwrap_or(0));
    let scores = ExactScores::<T>::of(launch, query_count, dim, end)?;
    let mut lists: Vec<Option<Vec<u32>>> = Vec::new();
    for query in 0..query_count {
        sums[1] += candidates.count(query) as u64;
        let mut list = None;
        if special_count <= most_special && candidates.fit(query) {
            let mut targets = survivors(&candidates, &scores, query, k)?;
            targets.extend(specials);
            // Candidates enter a list with ascending indices.
            targets.sort_unstable();
            list = (targets.len() <= most).then_some(targets);
        }
        match &list {
            Some(targets) => sums[2] += targets.len() as u64,
            None => {
                sums[0] += 1;
                given_up[0] += 1;
                given_up[given_up[0] as usize] = query as u32;
            }
        }
        lists.push(list);
    }
    write::<T>(launch, &lists, &scores, k)
}

/// The targets that may belong to a query's list.
fn survivors<T: Scalar>(
    candidates: &Candidates<'_>,
    scores: &ExactScores<'_, '_, T>,
    query: usize,
    k: usize,
) -> Result<Vec<u32>, ReferenceError> {
    let low = candidates.low(query, k);
    let mut left = candidates.reaching(query, low.unwrap_or(f32::NEG_INFINITY));
    if low.is_some() && left.len() > ROWS {
        let least = scores.least(query, &candidates.best(query, k))?;
        left = candidates.reaching(query, least);
    }
    Ok(left.into_iter().map(|[target, _]| target).collect())
}

/// Scores the targets that were selected for each query, and writes the best.
fn write<T: Scalar>(
    launch: &LaunchContext<'_>,
    selected: &[Option<Vec<u32>>],
    exact: &ExactScores<'_, '_, T>,
    k: usize,
) -> Outcome {
    let query_count = selected.len();
    let scores = launch.slice_mut::<f32>(11, query_count * k)?;
    let indices = launch.slice_mut::<u32>(12, query_count * k)?;
    let lists = scores.chunks_mut(k).zip(indices.chunks_mut(k));
    for (query, ((scores, indices), selected)) in lists.zip(selected).enumerate() {
        let Some(selected) = selected else { continue };
        scores.fill(f32::NEG_INFINITY);
        indices.fill(NONE);
        for (target, score) in selected.iter().zip(exact.of_targets(query, selected)?) {
            insert(scores, indices, score, *target);
        }
    }
    Ok(())
}

pub(super) fn gather(launch: &mut LaunchContext<'_>) -> Outcome {
    let (query_count, dim) = (launch.grid()[0] as usize, size(launch, 5)?);
    let queries = launch.slice::<f32>(0, query_count * dim)?;
    let norms = launch.slice::<f32>(1, query_count)?;
    let given_up = launch.slice::<u32>(2, 1 + query_count)?;
    let count = given_up[0] as usize;
    let rows = launch.slice_mut::<f32>(3, count * dim)?;
    let row_norms = launch.slice_mut::<f32>(4, count)?;
    for (at, query) in given_up[1..=count].iter().enumerate() {
        let query = *query as usize;
        rows[at * dim..][..dim].copy_from_slice(&queries[query * dim..][..dim]);
        row_norms[at] = norms[query];
    }
    Ok(())
}
