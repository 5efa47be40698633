//! The exact search's kernels for the simulator: CPU references with the same bounds, and bit-identical lists.

use super::bound::{Bound, RowBound, TILE_K, is_special, minus_down, plus_up};
use super::tiles::{BLOCK, Format, TILE, place, room};
use crate::chain;
use crate::cosine_top_k::cpu::{NONE, Scalar, insert, row_inverse_norms_cpu, square_sum};
use crate::metric::Metric;
use cuda_um_sim::{LaunchContext, TwinError, register_kernel};
use half::f16;
use rayon::prelude::*;
use std::time::Duration;

type Outcome = Result<(), TwinError>;

/// Group of targets; the sample keeps the best of each.
const GROUP: usize = 16;
const GROUPS: usize = BLOCK / GROUP;
/// Operations a second of the tensor cores of an H200 in these kernels, as measured.
const RATE: f64 = 6e14;

#[allow(
    unsafe_code,
    reason = "guarantees that the references match their kernels"
)]
// Only one copy, so that each reference has one address.
#[inline(never)]
pub(crate) fn register() {
    // SAFETY: each reference reads and writes the same memory as its kernel, with the same parameters.
    unsafe {
        register_kernel("exact_prepare_f32_bf16", |l| {
            prepare::<f32>(l, Format::Bf16)
        });
        register_kernel("exact_prepare_f32_f16", |l| prepare::<f32>(l, Format::F16));
        register_kernel("exact_prepare_f16_bf16", |l| {
            prepare::<f16>(l, Format::Bf16)
        });
        register_kernel("exact_prepare_f16_f16", |l| prepare::<f16>(l, Format::F16));
        register_kernel("exact_tile_bounds", tile_bounds);
        register_kernel("exact_sample_bf16", |l| sample(l, Format::Bf16));
        register_kernel("exact_sample_f16", |l| sample(l, Format::F16));
        register_kernel("exact_filter_bf16", |l| filter(l, Format::Bf16));
        register_kernel("exact_filter_f16", |l| filter(l, Format::F16));
        register_kernel("exact_thresholds", thresholds);
        register_kernel("exact_tighten", tighten);
        register_kernel("exact_rescore_f32", rescore::<f32>);
        register_kernel("exact_rescore_f16", rescore::<f16>);
        register_kernel("exact_gather", gather);
    }
}

fn size(launch: &LaunchContext<'_>, index: usize) -> Result<usize, TwinError> {
    launch.value::<u64>(index).map(|value| value as usize)
}

fn number(launch: &LaunchContext<'_>, index: usize) -> Result<usize, TwinError> {
    launch.value::<u32>(index).map(|value| value as usize)
}

fn prepare<T: Scalar>(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (first, count, end, dim) = (
        size(launch, 5)?,
        size(launch, 6)?,
        size(launch, 7)?,
        size(launch, 8)?,
    );
    let metric = match launch.value::<u32>(10)? {
        0 => Metric::InnerProduct,
        _ => Metric::Cosine,
    };
    let bound = Bound {
        grow: launch.value(9)?,
        ..Bound::new(dim, metric)
    };
    let existing = end.saturating_sub(first).min(count);
    let mut wide = Vec::new();
    let rows = T::widen(launch.slice::<T>(0, existing * dim)?, &mut wide);
    let norms = &mut launch.slice_mut::<f32>(1, first + existing)?[first..];
    let tiles = launch.slice_mut::<u16>(2, room(first + count, dim))?;
    let bounds = &mut launch.slice_mut::<RowBound>(3, first + count)?[first..];
    launch.slice_mut::<u32>(4, 1)?[0] = 0;
    match metric {
        Metric::Cosine => row_inverse_norms_cpu(rows, dim, norms),
        Metric::InnerProduct => norms.fill(1.0),
    }
    let blocks = dim.div_ceil(TILE_K);
    for at in 0..count {
        for element in 0..blocks * TILE_K {
            tiles[place(first + at, element, blocks)] = 0;
        }
        bounds[at] = [0.0, f32::INFINITY];
        if at >= existing {
            continue;
        }
        let (row, norm) = (&rows[at * dim..][..dim], norms[at]);
        let squares = square_sum(row);
        let zero = row.iter().all(|value| *value == 0.0);
        if !zero && is_special(squares, metric) {
            continue;
        }
        let mut errors = 0.0f32;
        for (element, value) in row.iter().enumerate() {
            let bits = format.narrow(value * norm);
            tiles[place(first + at, element, blocks)] = bits;
            // This is exact, and therefore equal to one fused multiply-add except for the last rounding. `grow` covers the
            // difference.
            let error =
                (f64::from(*value) * f64::from(norm) - f64::from(format.widen(bits))) as f32;
            errors += error * error;
        }
        bounds[at] = bound.row(norm, squares, errors);
    }
    Ok(())
}

fn tile_bounds(launch: &mut LaunchContext<'_>) -> Outcome {
    let (most, tiles, rows) = (number(launch, 3)?, number(launch, 4)?, number(launch, 5)?);
    let bounds = launch.slice::<RowBound>(0, tiles * BLOCK)?;
    let largest = launch.slice_mut::<RowBound>(1, tiles)?;
    let specials = launch.slice_mut::<u32>(2, 1 + most)?;
    for (tile, (largest, bounds)) in largest.iter_mut().zip(bounds.chunks(BLOCK)).enumerate() {
        *largest = [0.0; 2];
        for (i, bound) in bounds.iter().enumerate() {
            let row = tile * BLOCK + i;
            if bound[1] < f32::INFINITY {
                *largest = [largest[0].max(bound[0]), largest[1].max(bound[1])];
            } else if row < rows {
                let at = specials[0] as usize;
                specials[0] += 1;
                if at < most {
                    specials[1 + at] = row as u32;
                }
            }
        }
    }
    Ok(())
}

/// The i-th block of targets of a launch: of all blocks, of every period-th block, or (if the period is negative) of all
/// others.
fn tile_at(i: usize, period: i32) -> usize {
    match period {
        0 => i,
        1.. => i * period as usize,
        _ => i + i / (-period - 1) as usize + 1,
    }
}

/// Rows of tiles, converted to single precision.
fn rows_of(tiles: &[u16], rows: std::ops::Range<usize>, blocks: usize, format: Format) -> Vec<f32> {
    let dim = blocks * TILE_K;
    rows.flat_map(|row| (0..dim).map(move |element| (row, element)))
        .map(|(row, element)| format.widen(tiles[place(row, element, blocks)]))
        .collect()
}

/// The filter's scores of all queries with a block of targets, and the time that the tensor cores need.
struct Scores<'a> {
    queries: Vec<f32>,
    targets: &'a [u16],
    blocks: usize,
    format: Format,
}

impl Scores<'_> {
    /// Row by row of the queries.
    fn of(&self, tile: usize, scores: &mut Vec<f32>) {
        let rows = tile * BLOCK..(tile + 1) * BLOCK;
        let targets = rows_of(self.targets, rows, self.blocks, self.format);
        chain::products(&self.queries, &targets, self.blocks * TILE_K, scores);
    }
}

fn scores<'a>(
    launch: &LaunchContext<'a>,
    format: Format,
    query_count: usize,
    tiles: usize,
    period: i32,
    blocks: usize,
) -> Result<Scores<'a>, TwinError> {
    let dim = blocks * TILE_K;
    let end = tiles
        .checked_sub(1)
        .map_or(0, |last| tile_at(last, period) + 1);
    let query_tiles = launch.slice::<u16>(0, room(query_count, dim))?;
    let operations = 2.0 * (query_count.next_multiple_of(TILE) * tiles * BLOCK * dim) as f64;
    launch.lasts(Duration::from_secs_f64(operations / RATE));
    Ok(Scores {
        queries: rows_of(query_tiles, 0..query_count, blocks, format),
        targets: launch.slice::<u16>(1, end * BLOCK * dim)?,
        blocks,
        format,
    })
}

fn bound(launch: &LaunchContext<'_>, kappa: usize) -> Result<Bound, TwinError> {
    Ok(Bound {
        kappa: launch.value(kappa)?,
        tiny: launch.value(kappa + 1)?,
        grow: 1.0,
    })
}

fn sample(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (query_count, sampled) = (number(launch, 6)?, number(launch, 7)?);
    let (period, blocks) = (launch.value::<i32>(8)?, number(launch, 9)?);
    let bound = bound(launch, 10)?;
    let tiles = scores(launch, format, query_count, sampled, period, blocks)?;
    let end = tiles.targets.len() / (BLOCK * blocks * TILE_K);
    let query_bounds = launch.slice::<RowBound>(2, query_count)?;
    let target_bounds = launch.slice::<RowBound>(3, end * BLOCK)?;
    let tile_bounds = launch.slice::<RowBound>(4, end)?;
    let best = launch.slice_mut::<f32>(5, query_count * sampled * GROUPS)?;
    let mut products = Vec::new();
    for i in 0..sampled {
        let tile = tile_at(i, period);
        tiles.of(tile, &mut products);
        for (query, row) in products.chunks(BLOCK).enumerate() {
            let error = bound.error(query_bounds[query], tile_bounds[tile]);
            for (group, scores) in row.chunks(GROUP).enumerate() {
                let bounds = &target_bounds[tile * BLOCK + group * GROUP..][..GROUP];
                let high = scores
                    .iter()
                    .zip(bounds)
                    .filter(|(_, bound)| bound[1] < f32::INFINITY)
                    .fold(f32::NEG_INFINITY, |high, (score, _)| high.max(*score));
                best[(query * sampled + i) * GROUPS + group] = minus_down(high, error);
            }
        }
    }
    Ok(())
}

fn filter(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (capacity, query_count, target_count) =
        (number(launch, 7)?, number(launch, 8)?, number(launch, 9)?);
    let (count, period, blocks) = (
        number(launch, 10)?,
        launch.value::<i32>(11)?,
        number(launch, 12)?,
    );
    let bound = bound(launch, 13)?;
    let tiles = scores(launch, format, query_count, count, period, blocks)?;
    let end = tiles.targets.len() / (BLOCK * blocks * TILE_K);
    let query_bounds = launch.slice::<RowBound>(2, query_count)?;
    let tile_bounds = launch.slice::<RowBound>(3, end)?;
    let thresholds = launch.slice_mut::<f32>(4, query_count)?;
    let counts = launch.slice_mut::<u32>(5, query_count)?;
    let kept = launch.slice_mut::<[u32; 2]>(6, query_count * capacity)?;
    let mut products = Vec::new();
    for i in 0..count {
        let tile = tile_at(i, period);
        tiles.of(tile, &mut products);
        for (query, row) in products.chunks(BLOCK).enumerate() {
            let error = bound.error(query_bounds[query], tile_bounds[tile]);
            let least = minus_down(thresholds[query], error);
            for (offset, score) in row.iter().enumerate() {
                let target = tile * BLOCK + offset;
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
        }
    }
    Ok(())
}

/// The k-th largest, if there are at least k.
fn kth(mut numbers: Vec<f32>, k: usize) -> Option<f32> {
    (numbers.len() >= k).then(|| {
        *numbers
            .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a))
            .1
    })
}

fn thresholds(launch: &mut LaunchContext<'_>) -> Outcome {
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

/// Bounds of targets up to the last candidate; the kernels do not get the number of targets.
fn target_bounds<'a>(
    launch: &LaunchContext<'a>,
    index: usize,
    counts: &[u32],
    kept: &[[u32; 2]],
    capacity: usize,
) -> Result<&'a [RowBound], TwinError> {
    let lists = counts.iter().zip(kept.chunks(capacity));
    let listed = lists.filter(|(count, _)| **count as usize <= capacity);
    let targets = listed.flat_map(|(count, kept)| &kept[..*count as usize]);
    launch.slice(
        index,
        targets.map(|kept| kept[0] as usize + 1).max().unwrap_or(0),
    )
}

/// The k-th best of the lower bounds of the candidates' exact scores.
fn low(
    kept: &[[u32; 2]],
    bounds: &[RowBound],
    query: RowBound,
    bound: Bound,
    k: usize,
) -> Option<f32> {
    let held = kept.iter().filter_map(|[target, bits]| {
        let target = bounds[*target as usize];
        (target[1] < f32::INFINITY)
            .then(|| minus_down(f32::from_bits(*bits), bound.error(query, target)))
    });
    kth(held.collect(), k)
}

fn tighten(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (capacity, k) = (number(launch, 5)?, number(launch, 6)?);
    let bound = bound(launch, 7)?;
    let query_bounds = launch.slice::<RowBound>(0, query_count)?;
    let thresholds = launch.slice_mut::<f32>(2, query_count)?;
    let counts = launch.slice::<u32>(3, query_count)?;
    let kept = launch.slice::<[u32; 2]>(4, query_count * capacity)?;
    let bounds = target_bounds(launch, 1, counts, kept, capacity)?;
    for (query, kept) in kept.chunks(capacity).enumerate() {
        let count = counts[query] as usize;
        if count > capacity {
            continue;
        }
        if let Some(low) = low(&kept[..count], bounds, query_bounds[query], bound, k) {
            thresholds[query] = thresholds[query].max(low);
        }
    }
    Ok(())
}

fn rescore<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (dim, limits) = (size(launch, 13)?, launch.value::<u64>(14)?);
    let bound = bound(launch, 15)?;
    let capacity = (limits & 0xf_ffff) as usize;
    let most = (limits >> 20 & 0xffff) as usize;
    let most_special = (limits >> 36 & 0xfff) as usize;
    let k = (limits >> 48) as usize;
    let queries = launch.slice::<f32>(0, query_count * dim)?;
    let query_norms = launch.slice::<f32>(2, query_count)?;
    let query_bounds = launch.slice::<RowBound>(4, query_count)?;
    let counts = launch.slice::<u32>(6, query_count)?;
    let kept = launch.slice::<[u32; 2]>(7, query_count * capacity)?;
    let bounds = target_bounds(launch, 5, counts, kept, capacity)?;
    let specials = launch.slice::<u32>(8, 1 + most_special)?;
    let given_up = launch.slice_mut::<u32>(9, 1 + query_count)?;
    let sums = launch.slice_mut::<u64>(10, 3)?;
    let scores = launch.slice_mut::<f32>(11, query_count * k)?;
    let indices = launch.slice_mut::<u32>(12, query_count * k)?;
    let special_count = specials[0] as usize;
    let mut lists: Vec<Option<Vec<u32>>> = Vec::new();
    for (query, kept) in kept.chunks(capacity).enumerate() {
        let count = counts[query] as usize;
        sums[1] += count.min(capacity) as u64;
        let mut list = None;
        if count <= capacity && special_count <= most_special {
            let kept = &kept[..count];
            let least =
                low(kept, bounds, query_bounds[query], bound, k).unwrap_or(f32::NEG_INFINITY);
            let may_belong = kept.iter().filter(|[target, bits]| {
                let target = bounds[*target as usize];
                let high = plus_up(
                    f32::from_bits(*bits),
                    bound.error(query_bounds[query], target),
                );
                target[1] < f32::INFINITY && high >= least
            });
            let mut targets: Vec<u32> = may_belong.map(|[target, _]| *target).collect();
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
    let listed = lists.iter().flatten().flatten();
    let end = listed.max().map_or(0, |last| *last as usize + 1);
    let targets = launch.slice::<T>(1, end * dim)?;
    let target_norms = launch.slice::<f32>(3, end)?;
    let rows = scores.par_chunks_mut(k).zip(indices.par_chunks_mut(k));
    rows.zip(&lists)
        .enumerate()
        .for_each(|(query, ((scores, indices), list))| {
            let Some(list) = list else { return };
            scores.fill(f32::NEG_INFINITY);
            indices.fill(NONE);
            let (mut rows, mut room, mut products) = (Vec::new(), Vec::new(), Vec::new());
            for target in list {
                let row = &targets[*target as usize * dim..][..dim];
                rows.extend_from_slice(T::widen(row, &mut room));
            }
            chain::products(&queries[query * dim..][..dim], &rows, dim, &mut products);
            for (target, product) in list.iter().zip(&products) {
                let score = product * query_norms[query] * target_norms[*target as usize];
                insert(scores, indices, score, *target);
            }
        });
    Ok(())
}

fn gather(launch: &mut LaunchContext<'_>) -> Outcome {
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
