//! Keeps the targets that reach a query's threshold.

use super::scores::Scores;
use crate::exact::bound::minus_down;
use crate::exact::tiles::{BLOCK, Format};
use crate::reference::{Outcome, number};
use cuda_um_sim::LaunchContext;

pub(super) fn filter(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (capacity, query_count, target_count) =
        (number(launch, 9)?, number(launch, 10)?, number(launch, 11)?);
    let scores = Scores::of(launch, format, query_count, 3, 12)?;
    let thresholds = launch.slice_mut::<f32>(6, query_count)?;
    let counts = launch.slice_mut::<u32>(7, query_count)?;
    let kept = launch.slice_mut::<[u32; 2]>(8, query_count * capacity)?;
    scores.each(|row| {
        let query = row.query;
        let least = minus_down(thresholds[query], row.error);
        for (offset, score) in row.scores.iter().enumerate() {
            let target = row.tile * BLOCK + offset;
            if *score < least || target >= target_count {
                continue;
            }
            let at = counts[query] as usize;
            counts[query] += 1;
            if at < capacity {
                kept[query * capacity + at] = [target as u32, score.to_bits()];
            } else {
                thresholds[query] = f32::INFINITY;
            }
        }
    });
    Ok(())
}
