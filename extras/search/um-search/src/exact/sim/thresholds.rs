//! Thresholds from a sample of the targets.

use super::candidates::kth;
use super::exact_scores::ExactScores;
use super::scores::Scores;
use crate::cosine_top_k::cpu::Scalar;
use crate::exact::bound::{RowBound, minus_down};
use crate::exact::tiles::{BLOCK, Format, GROUPS};
use crate::reference::{Outcome, number, size};
use cuda_um_sim::LaunchContext;

/// Targets of a group.
const GROUP: usize = BLOCK / GROUPS;

/// The targets of a group within a block.
fn target_of(group: usize, place: usize) -> usize {
    group / 4 * 64 + group % 4 * 2 + place / 2 * 8 + place % 2
}

pub(super) fn sample(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let query_count = number(launch, 8)?;
    let scores = Scores::of(launch, format, query_count, 4, 9)?;
    let target_bounds = launch.slice::<RowBound>(3, scores.end())?;
    let best = launch.slice_mut::<f32>(7, query_count * scores.tiles * GROUPS)?;
    scores.each(|row| {
        let groups = (row.query * scores.tiles + row.place) * GROUPS;
        let bounds = &target_bounds[row.tile * BLOCK..];
        for (group, best) in best[groups..][..GROUPS].iter_mut().enumerate() {
            let usual =
                (0..GROUP).filter(|place| bounds[target_of(group, *place)][1] < f32::INFINITY);
            let high = usual.fold(f32::NEG_INFINITY, |high, place| {
                let score = row.scores[target_of(group, place)];
                high.max(match format {
                    Format::Bf16 | Format::F16 => score,
                    // The last bits have the target's place: its exact score is computed.
                    Format::Int8 => f32::from_bits(score.to_bits() & !15 | place as u32),
                })
            });
            *best = match format {
                Format::Bf16 | Format::F16 => minus_down(high, row.error),
                Format::Int8 => high,
            };
        }
    });
    Ok(())
}

pub(super) fn thresholds<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (dim, groups, period) = (size(launch, 9)?, number(launch, 10)?, number(launch, 11)?);
    let (capacity, k) = (launch.value::<u32>(12)?, number(launch, 13)?);
    let exact = launch.value::<u32>(14)? != 0;
    let bounds = launch.slice::<RowBound>(4, query_count)?;
    let best = launch.slice::<f32>(5, query_count * groups)?;
    let thresholds = launch.slice_mut::<f32>(6, query_count)?;
    let counts = launch.slice_mut::<u32>(7, query_count)?;
    launch.slice_mut::<u32>(8, 1)?[0] = 0;
    let listed = |best: &[f32]| {
        let mut order: Vec<usize> = (0..groups).collect();
        order.sort_by(|a, b| best[*b].total_cmp(&best[*a]));
        let target = |at: &usize| {
            let place = best[*at].to_bits() as usize & 15;
            (at / GROUPS * period * BLOCK + target_of(at % GROUPS, place)) as u32
        };
        order[..k].iter().map(target).collect::<Vec<u32>>()
    };
    let mut least: Vec<f32> = Vec::new();
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for (best, bound) in best.chunks(groups).zip(bounds) {
        let holds = bound[1] < f32::INFINITY;
        let low = kth(best.to_vec(), k).unwrap_or(f32::NEG_INFINITY);
        least.push(if holds { low } else { f32::INFINITY });
        let scored = exact && holds && low > f32::NEG_INFINITY;
        lists.push(if scored { listed(best) } else { Vec::new() });
    }
    let end = lists.iter().flatten().map(|target| *target as usize + 1);
    let scores = ExactScores::<T>::of(launch, query_count, dim, end.max().unwrap_or(0))?;
    for (query, (list, bound)) in lists.iter().zip(bounds).enumerate() {
        thresholds[query] = match list.is_empty() {
            true => least[query],
            false => scores.least(query, list)?,
        };
        let holds = bound[1] < f32::INFINITY;
        counts[query] = if holds { 0 } else { capacity + 1 };
    }
    Ok(())
}
