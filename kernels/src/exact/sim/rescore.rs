//! Scores of the candidates in single precision.

use super::candidates::Candidates;
use super::scores::bound;
use crate::chain;
use crate::cosine_top_k::cpu::{NONE, Scalar, insert};
use crate::reference::{Outcome, size};
use cuda_um_sim::LaunchContext;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn rescore<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let limits = launch.value::<u64>(14)?;
    let capacity = (limits & 0xf_ffff) as usize;
    let most = (limits >> 20 & 0xffff) as usize;
    let most_special = (limits >> 36 & 0xfff) as usize;
    let k = (limits >> 48) as usize;
    let candidates = Candidates::of(launch, [4, 5, 6, 7], capacity, bound(launch, 15)?)?;
    let specials = launch.slice::<u32>(8, 1 + most_special)?;
    let given_up = launch.slice_mut::<u32>(9, 1 + query_count)?;
    let sums = launch.slice_mut::<u64>(10, 3)?;
    let special_count = specials[0] as usize;
    let mut lists: Vec<Option<Vec<u32>>> = Vec::new();
    for query in 0..query_count {
        sums[1] += candidates.count(query) as u64;
        let mut list = None;
        if special_count <= most_special
            && let Some(mut targets) = candidates.survivors(query, k)
        {
            targets.extend(&specials[1..1 + special_count]);
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
    score::<T>(launch, &lists, k)
}

/// Scores the targets that were selected for each query, and writes the best.
fn score<T: Scalar>(
    launch: &LaunchContext<'_>,
    selected: &[Option<Vec<u32>>],
    k: usize,
) -> Outcome {
    let (query_count, dim) = (selected.len(), size(launch, 13)?);
    let queries = launch.slice::<f32>(0, query_count * dim)?;
    let query_norms = launch.slice::<f32>(2, query_count)?;
    // Only these rows are read.
    let needed: BTreeSet<u32> = selected.iter().flatten().flatten().copied().collect();
    let end = needed.last().map_or(0, |last| *last as usize + 1);
    let mut targets = BTreeMap::new();
    for target in needed {
        let row = target as usize * dim;
        targets.insert(target, launch.slice_at::<T>(1, row..row + dim)?);
    }
    let target_norms = launch.slice::<f32>(3, end)?;
    let scores = launch.slice_mut::<f32>(11, query_count * k)?;
    let indices = launch.slice_mut::<u32>(12, query_count * k)?;
    let lists = scores.par_chunks_mut(k).zip(indices.par_chunks_mut(k));
    lists
        .zip(selected)
        .enumerate()
        .for_each(|(query, ((scores, indices), selected))| {
            let Some(selected) = selected else { return };
            scores.fill(f32::NEG_INFINITY);
            indices.fill(NONE);
            let (mut rows, mut room, mut products) = (Vec::new(), Vec::new(), Vec::new());
            for target in selected {
                rows.extend_from_slice(T::widen(targets[target], &mut room));
            }
            chain::products(&queries[query * dim..][..dim], &rows, dim, &mut products);
            for (target, product) in selected.iter().zip(&products) {
                let score = product * query_norms[query] * target_norms[*target as usize];
                insert(scores, indices, score, *target);
            }
        });
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
