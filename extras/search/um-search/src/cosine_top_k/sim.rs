//! The CPU references of the kernels, for the simulator.

use super::cpu::{NONE, Scalar, Vectors, best_of, insert, row_norms, scale_queries};
use crate::chain;
use crate::reference::{Outcome, number, size};
use cuda_um_sim::LaunchContext;
use std::time::Duration;

pub(crate) fn norms<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (rows, dim) = (size(launch, 2)?, size(launch, 3)?);
    let elements = launch.slice::<T>(0, rows * dim)?;
    row_norms(elements, dim, launch.slice_mut::<f32>(1, rows)?);
    Ok(())
}

pub(crate) fn scale<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (rows, dim) = (size(launch, 2)?, size(launch, 3)?);
    let mut room = Vec::new();
    let wide = T::widen(launch.slice::<T>(0, rows * dim)?, &mut room);
    let to = launch.slice_mut::<f32>(1, rows * dim)?;
    to.copy_from_slice(wide);
    if launch.value::<u32>(4)? != 0 {
        scale_queries(to, dim);
    }
    Ok(())
}

pub(crate) fn partial<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = size(launch, 6)?;
    tiled::<T>(launch, query_count)
}

/// For few queries; the last parameter says if the kernel computes the norms of the targets.
pub(crate) fn few<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (query_count, target_count, dim) = (size(launch, 6)?, size(launch, 7)?, size(launch, 8)?);
    let parts = (size(launch, 9)?, number(launch, 10)?);
    if launch.value::<u32>(11)? != 0 {
        let targets = launch.slice::<T>(1, target_count * dim)?;
        let norms = launch.slice_mut::<f32>(3, target_count)?;
        row_norms(targets, dim, norms);
        return lists::<T>(launch, query_count, norms, parts);
    }
    let norms = launch.slice(3, target_count)?;
    lists::<T>(launch, query_count, norms, parts)
}

/// The norms of the queries, if wanted, and the first tile that no block has taken.
pub(crate) fn few_80_begin(launch: &mut LaunchContext<'_>) -> Outcome {
    let (query_count, dim) = (launch.grid()[0] as usize, size(launch, 3)?);
    let norms = launch.slice_mut::<f32>(1, query_count)?;
    match launch.value::<u32>(4)? {
        0 => norms.fill(1.0),
        _ => row_norms(launch.slice::<f32>(0, query_count * dim)?, dim, norms),
    }
    launch.slice_mut::<u32>(2, 1)?[0] = 0;
    Ok(())
}

/// Each block takes the same number of adjacent tiles, one possible order.
pub(crate) fn few_80<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (query_count, target_count, dim) = (size(launch, 6)?, size(launch, 7)?, size(launch, 8)?);
    let starts = [launch.value::<u64>(0)?, launch.value::<u64>(1)?];
    let fits = dim.is_multiple_of(128) && starts.iter().all(|start| start.is_multiple_of(16));
    assert!(
        fits,
        "rows of {dim} elements at {starts:x?} cannot be copied"
    );
    let next = &mut launch.slice_mut::<u32>(3, 1)?[0];
    let (tiles, blocks) = (target_count.div_ceil(TILE), launch.grid()[1] as usize);
    let left = tiles.saturating_sub(*next as usize);
    *next += (left + blocks) as u32;
    let targets = launch.slice::<T>(1, target_count * dim)?;
    let mut norms = vec![1.0; target_count];
    if launch.value::<u32>(10)? != 0 {
        row_norms(targets, dim, &mut norms);
    }
    // Tiles that were taken before are in no list.
    norms[..(tiles - left) * TILE].fill(f32::NAN);
    let parts = (TILE * tiles.div_ceil(blocks), number(launch, 9)?);
    lists::<T>(launch, query_count, &norms, parts)
}

/// For the number of queries in device memory.
pub(crate) fn partial_some<T: Scalar>(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.slice::<u32>(6, 1)?[0] as usize;
    if query_count == 0 {
        return Ok(());
    }
    tiled::<T>(launch, query_count)
}

/// Operations a second of these kernels on an H200, as measured.
const RATE: f64 = 4.5e13;
/// Queries and targets that a block scores at the same time.
const TILE: usize = 128;

/// Bit for bit the result of the kernel, from the norms. Tells the simulator the time of the arithmetic for whole tiles of queries.
fn tiled<T: Scalar>(launch: &mut LaunchContext<'_>, query_count: usize) -> Outcome {
    let pairs = query_count.next_multiple_of(TILE) as f64 * size(launch, 7)? as f64;
    let operations = 2.0 * pairs * size(launch, 8)? as f64;
    launch.lasts(Duration::from_secs_f64(operations / RATE));
    let norms = launch.slice(3, size(launch, 7)?)?;
    let parts = (size(launch, 9)?, number(launch, 10)?);
    lists::<T>(launch, query_count, norms, parts)
}

/// Lists of k for each chunk of targets.
fn lists<T: Scalar>(
    launch: &LaunchContext<'_>,
    query_count: usize,
    target_norms: &[f32],
    (chunk, k): (usize, usize),
) -> Outcome {
    let (target_count, dim) = (size(launch, 7)?, size(launch, 8)?);
    let chunks = launch.grid()[1] as usize;
    let vectors = Vectors {
        queries: launch.slice(0, query_count * dim)?,
        targets: launch.slice::<T>(1, target_count * dim)?,
        query_norms: launch.slice(2, query_count)?,
        target_norms,
        dim,
    };
    let stride = chunks * k;
    let scores = launch.slice_mut::<f32>(4, query_count * stride)?;
    let indices = launch.slice_mut::<u32>(5, query_count * stride)?;
    for part in 0..chunks {
        let end = ((part + 1) * chunk).min(target_count);
        let range = end.min(part * chunk)..end;
        best_of(
            chain::products,
            vectors,
            k,
            range,
            stride,
            &mut scores[part * k..],
            &mut indices[part * k..],
        );
    }
    Ok(())
}

pub(crate) fn merge(launch: &mut LaunchContext<'_>) -> Outcome {
    let rows: Vec<u32> = (0..launch.grid()[0]).collect();
    merge_into(launch, &rows, 4)
}

/// For the number of queries in device memory, into the rows that are also there.
pub(crate) fn merge_some(launch: &mut LaunchContext<'_>) -> Outcome {
    let some = launch.slice::<u32>(4, 1 + launch.grid()[0] as usize)?;
    merge_into(launch, &some[1..=some[0] as usize], 5)
}

fn merge_into(launch: &mut LaunchContext<'_>, rows: &[u32], first_size: usize) -> Outcome {
    let (chunks, k) = (size(launch, first_size)?, number(launch, first_size + 1)?);
    let scores = launch.slice::<f32>(0, rows.len() * chunks * k)?;
    let indices = launch.slice::<u32>(1, rows.len() * chunks * k)?;
    let end = rows.iter().max().map_or(0, |last| *last as usize + 1);
    let best = launch.slice_mut::<f32>(2, end * k)?;
    let best_indices = launch.slice_mut::<u32>(3, end * k)?;
    let lists = scores
        .chunks_exact(chunks * k)
        .zip(indices.chunks_exact(chunks * k));
    for ((scores, indices), row) in lists.zip(rows) {
        let places = *row as usize * k..(*row as usize + 1) * k;
        let (best, best_indices) = (&mut best[places.clone()], &mut best_indices[places]);
        best.fill(f32::NEG_INFINITY);
        best_indices.fill(NONE);
        for (score, index) in scores.iter().zip(indices) {
            insert(best, best_indices, *score, *index);
        }
    }
    Ok(())
}
