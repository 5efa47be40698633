//! The CPU references as kernels of the simulator.
#![allow(
    unsafe_code,
    reason = "guarantees that the references match their kernels"
)]

use crate::cosine_top_k::cpu::{Rows, best_of, insert, row_scale};
use crate::cpu::{THREADS, block_sum, saxpy_cpu, scale_cpu};
use bytemuck::Pod;
use cuda_um_sim::{CpuReference, LaunchContext, ReferenceError, register_module};
use std::sync::Once;
use std::time::Duration;

type Outcome = Result<(), ReferenceError>;

/// A module's PTX, and the references of its kernels.
type Module = (&'static str, &'static [(&'static str, CpuReference)]);

/// Registers all references with every simulator of this process, for the modules of this crate: kernels of other modules with the same
/// names keep their references. The launchers do this when they are loaded; repeated calls have no effect.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (ptx, references) in MODULES {
            // SAFETY: each reference reads and writes the same memory as its kernel, with the same parameters.
            unsafe { register_module(ptx, references) };
        }
    });
}

const MODULES: [Module; 6] = [
    (
        include_str!("../ptx/fill.ptx"),
        &[
            ("fill_u8", fill::<u8>),
            ("fill_u16", fill::<u16>),
            ("fill_u32", fill::<u32>),
            ("fill_u64", fill::<u64>),
        ],
    ),
    (include_str!("../ptx/scale.ptx"), &[("scale_f32", scale)]),
    (include_str!("../ptx/saxpy.ptx"), &[("saxpy_f32", saxpy)]),
    (
        include_str!("../ptx/reduce.ptx"),
        &[
            ("reduce_sum_f32", reduce_sum),
            ("reduce_sum_naive_f32", reduce_sum_naive),
        ],
    ),
    (
        include_str!("../ptx/copy.ptx"),
        &[("copy_coalesced_f32", copy), ("copy_strided_f32", copy)],
    ),
    (
        include_str!("../ptx/cosine_top_k.ptx"),
        &[
            ("row_scales", row_scales),
            ("cosine_top_k_partial", partial),
            ("cosine_top_k_merge", merge),
        ],
    ),
];

/// A 64-bit size.
fn size(launch: &LaunchContext<'_>, index: usize) -> Result<usize, ReferenceError> {
    launch.value::<u64>(index).map(|value| value as usize)
}

fn fill<T: Pod>(launch: &mut LaunchContext<'_>) -> Outcome {
    let (count, value) = (size(launch, 2)?, launch.value::<T>(1)?);
    if (launch.value::<u64>(0)? as usize).is_multiple_of(align_of::<T>()) {
        launch.slice_mut::<T>(0, count)?.fill(value);
        return Ok(());
    }
    // Byte by byte, like the kernel.
    let bytes = launch.slice_mut::<u8>(0, count.saturating_mul(size_of::<T>()))?;
    bytes
        .chunks_exact_mut(size_of::<T>())
        .for_each(|element| element.copy_from_slice(bytemuck::bytes_of(&value)));
    Ok(())
}

fn scale(launch: &mut LaunchContext<'_>) -> Outcome {
    let count = size(launch, 3)?;
    scale_cpu(
        launch.slice(0, count)?,
        launch.slice_mut(1, count)?,
        launch.value(2)?,
    );
    Ok(())
}

fn saxpy(launch: &mut LaunchContext<'_>) -> Outcome {
    let count = size(launch, 3)?;
    saxpy_cpu(
        launch.value(0)?,
        launch.slice(1, count)?,
        launch.slice_mut(2, count)?,
    );
    Ok(())
}

fn reduce_sum(launch: &mut LaunchContext<'_>) -> Outcome {
    let blocks = launch.grid()[0] as usize;
    debug_assert_eq!(launch.block()[0] as usize, THREADS);
    let input = launch.slice::<f32>(0, size(launch, 2)?)?;
    for (block, sum) in launch.slice_mut::<f32>(1, blocks)?.iter_mut().enumerate() {
        *sum = block_sum(input, block, blocks);
    }
    Ok(())
}

fn reduce_sum_naive(launch: &mut LaunchContext<'_>) -> Outcome {
    let input = launch.slice::<f32>(0, size(launch, 2)?)?;
    let sum = &mut launch.slice_mut::<f32>(1, 1)?[0];
    *sum = input.iter().fold(*sum, |sum, value| sum + value);
    Ok(())
}

/// The order of the threads has no effect on the result.
fn copy(launch: &mut LaunchContext<'_>) -> Outcome {
    let count = size(launch, 2)?;
    launch
        .slice_mut::<f32>(1, count)?
        .copy_from_slice(launch.slice(0, count)?);
    Ok(())
}

fn row_scales(launch: &mut LaunchContext<'_>) -> Outcome {
    let (count, dim) = (size(launch, 2)?, size(launch, 3)?);
    let rows = launch.slice::<f32>(0, count * dim)?.chunks(dim);
    let scales = launch.slice_mut::<[f32; 2]>(1, count)?;
    rows.zip(scales)
        .for_each(|(row, scale)| *scale = row_scale(row));
    Ok(())
}

/// Operations a second of this kernel on an H200: an estimate.
const RATE: f64 = 3e13;

/// Tells the simulator the time of the arithmetic, too.
fn partial(launch: &mut LaunchContext<'_>) -> Outcome {
    let (queries, targets, dim) = (size(launch, 6)?, size(launch, 7)?, size(launch, 8)?);
    let (chunk, k) = (size(launch, 9)?, launch.value::<u32>(10)? as usize);
    let operations = 2.0 * queries as f64 * targets as f64 * dim as f64;
    launch.lasts(Duration::from_secs_f64(operations / RATE));
    let rows = |index, count: usize| -> Result<_, ReferenceError> {
        Ok(Rows {
            elements: launch.slice(index, count * dim)?,
            scales: launch.slice(index + 2, count)?,
            dim,
        })
    };
    let (queries, targets) = (rows(0, queries)?, rows(1, targets)?);
    let (count, chunks) = (targets.scales.len(), launch.grid()[1] as usize);
    let stride = chunks * k;
    let scores = launch.slice_mut::<f32>(4, queries.scales.len() * stride)?;
    let indices = launch.slice_mut::<u32>(5, queries.scales.len() * stride)?;
    for part in 0..chunks {
        let range = part * chunk..((part + 1) * chunk).min(count);
        let (scores, indices) = (&mut scores[part * k..], &mut indices[part * k..]);
        best_of(queries, targets, range, (k, stride), scores, indices);
    }
    Ok(())
}

fn merge(launch: &mut LaunchContext<'_>) -> Outcome {
    let (queries, chunks) = (size(launch, 4)?, size(launch, 5)?);
    let k = launch.value::<u32>(6)? as usize;
    let scores = launch
        .slice::<f32>(0, queries * chunks * k)?
        .chunks(chunks * k);
    let indices = launch
        .slice::<u32>(1, queries * chunks * k)?
        .chunks(chunks * k);
    let best_scores = launch.slice_mut::<f32>(2, queries * k)?.chunks_mut(k);
    let best_indices = launch.slice_mut::<u32>(3, queries * k)?.chunks_mut(k);
    for ((scores, indices), (best, best_indices)) in
        scores.zip(indices).zip(best_scores.zip(best_indices))
    {
        best.fill(f32::NEG_INFINITY);
        best_indices.fill(u32::MAX);
        for (score, index) in scores.iter().zip(indices) {
            insert(best, best_indices, *score, *index);
        }
    }
    Ok(())
}
