//! Thresholds: from a sample of the targets, and from the first candidates.

use super::candidates::{Candidates, kth};
use super::scores::{Scores, bound};
use crate::exact::bound::{RowBound, minus_down};
use crate::exact::tiles::{BLOCK, Format, GROUPS};
use crate::reference::{Outcome, number};
use cuda_um_sim::LaunchContext;

/// Targets of a group.
const GROUP: usize = BLOCK / GROUPS;
pub(super) fn sample(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let query_count = number(launch, 6)?;
    let scores = Scores::of(launch, format, query_count, 4, 7)?;
    let target_bounds = launch.slice::<RowBound>(3, scores.end())?;
    let best = launch.slice_mut::<f32>(5, query_count * scores.tiles * GROUPS)?;
    scores.each(|row| {
        let groups = (row.query * scores.tiles + row.place) * GROUPS;
        let bounds = target_bounds[row.tile * BLOCK..].chunks(GROUP);
        let scores = row.scores.chunks(GROUP).zip(bounds);
        for (best, (scores, bounds)) in best[groups..].iter_mut().zip(scores) {
            let high = scores
                .iter()
                .zip(bounds)
                .filter(|(_, bound)| bound[1] < f32::INFINITY)
                .fold(f32::NEG_INFINITY, |high, (score, _)| high.max(*score));
            *best = minus_down(high, row.error);
        }
    });
    Ok(())
}

pub(super) fn thresholds(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (groups, capacity, k) = (
        number(launch, 5)?,
        launch.value::<u32>(6)?,
        number(launch, 7)?,
    );
    let best = launch.slice::<f32>(0, query_count * groups)?;
    let bounds = launch.slice::<RowBound>(1, query_count)?;
    let thresholds = launch.slice_mut::<f32>(2, query_count)?;
    let counts = launch.slice_mut::<u32>(3, query_count)?;
    launch.slice_mut::<u32>(4, 1)?[0] = 0;
    for (query, best) in best.chunks(groups).enumerate() {
        let holds = bounds[query][1] < f32::INFINITY;
        counts[query] = if holds { 0 } else { capacity + 1 };
        thresholds[query] = match kth(best.to_vec(), k) {
            _ if !holds => f32::INFINITY,
            Some(kth) => kth,
            None => f32::NEG_INFINITY,
        };
    }
    Ok(())
}

pub(super) fn tighten(launch: &mut LaunchContext<'_>) -> Outcome {
    let (capacity, k) = (number(launch, 5)?, number(launch, 6)?);
    let candidates = Candidates::of(launch, [0, 1, 3, 4], capacity, bound(launch, 7)?)?;
    let thresholds = launch.slice_mut::<f32>(2, launch.grid()[0] as usize)?;
    for (query, threshold) in thresholds.iter_mut().enumerate() {
        if let Some(low) = candidates.low(query, k) {
            *threshold = threshold.max(low);
        }
    }
    Ok(())
}
