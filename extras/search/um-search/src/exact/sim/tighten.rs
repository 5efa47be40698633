//! Better thresholds from the first candidates.

use super::candidates::Candidates;
use super::exact_scores::ExactScores;
use super::scores::bound;
use crate::cosine_top_k::cpu::Scalar;
use crate::reference::{Outcome, number, size};
use cuda_um_sim::LaunchContext;

pub(super) fn tighten<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (dim, capacity, k) = (size(launch, 10)?, number(launch, 11)?, number(launch, 12)?);
    let exact = launch.value::<u32>(13)? != 0;
    let counts = launch.slice_mut::<u32>(7, query_count)?;
    let kept = launch.slice_mut::<[u32; 2]>(8, query_count * capacity)?;
    let candidates = Candidates::of(launch, counts, kept, bound(launch, 14)?)?;
    let scores = ExactScores::<T>::of(launch, query_count, dim, candidates.end())?;
    let thresholds = launch.slice_mut::<f32>(6, query_count)?;
    let mut left = Vec::new();
    for (query, threshold) in thresholds.iter_mut().enumerate() {
        let Some(low) = candidates.low(query, k) else {
            left.push(None);
            continue;
        };
        *threshold = threshold.max(low);
        if exact {
            let best = candidates.best(query, k);
            *threshold = threshold.max(scores.least(query, &best)?);
        }
        left.push(Some(candidates.reaching(query, *threshold)));
    }
    let sums = launch.slice_mut::<u64>(9, 3)?;
    for (query, left) in left.into_iter().enumerate() {
        let Some(left) = left else { continue };
        kept[query * capacity..][..left.len()].copy_from_slice(&left);
        sums[1] += u64::from(counts[query]) - left.len() as u64;
        counts[query] = left.len() as u32;
    }
    Ok(())
}
