//! The kernels of `kernels/ptx`, against Rust.

use cuda_um_ptx::{Checks, Launch};

use crate::mutants::CHANGED;
use crate::support::{Arrays, Parameters, Plain, program};

/// The text of a shipped kernel.
pub fn shipped(file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/ptx");
    std::fs::read_to_string(format!("{folder}/{file}.ptx")).unwrap()
}

fn run(
    file: &str,
    name: &str,
    grid: [u32; 2],
    block: u32,
    parameters: Parameters,
    arrays: &Arrays,
) {
    let changed = CHANGED.with_borrow(|changed| match changed {
        Some((of, text)) if *of == file => Some(text.clone()),
        _ => None,
    });
    let program = program(&changed.unwrap_or_else(|| shipped(file)), name);
    let launch = Launch {
        grid: [grid[0], grid[1], 1],
        block: [block, 1, 1],
        parameters: &parameters.0,
        checks: Checks::ALL,
        seed: 3,
        threads: 1,
        instructions: 1 << 20,
        ..Launch::default()
    };
    program
        .run(&launch, arrays)
        .unwrap_or_else(|failure| panic!("{failure}"));
}

fn values(count: usize, scale: f32) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919) % 1009) as f32 * scale - 30.0)
        .collect()
}

#[test]
pub fn scale_and_saxpy() {
    let values = values(1000, 0.37);
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&vec![1f32; 1000]), arrays.add(&values));
    run(
        "scale",
        "scale_f32",
        [3, 1],
        128,
        with![from, out, 2.5f32, 1000u64],
        &arrays,
    );
    assert_eq!(
        arrays.get::<f32>(out),
        values.iter().map(|value| value * 2.5).collect::<Vec<_>>()
    );
    let (x, y) = (arrays.add(&values), arrays.add(&vec![0.1f32; 1000]));
    run(
        "saxpy",
        "saxpy_f32",
        [2, 1],
        64,
        with![-0.7f32, x, y, 1000u64],
        &arrays,
    );
    assert_eq!(
        arrays.get::<f32>(y),
        values
            .iter()
            .map(|value| value.mul_add(-0.7, 0.1))
            .collect::<Vec<_>>()
    );
}

/// Fills all elements but the last, the first of which begins at that byte of its array.
fn filled<T: Plain + PartialEq + std::fmt::Debug>(name: &str, value: T, first: usize) {
    let count = 1000;
    let mut arrays = Arrays::default();
    let out = arrays.add(&vec![9u8; first + (count + 1) * T::SIZE]);
    let parameters = with![out + first as u64, value, count as u64];
    run("fill", name, [2, 1], 256, parameters, &arrays);
    let bytes: Vec<u8> = arrays.get(out);
    let (before, rest) = bytes.split_at(first);
    let (elements, after) = rest.split_at(count * T::SIZE);
    assert!(
        elements
            .chunks(T::SIZE)
            .all(|element| T::from_bytes(element) == value),
        "{name}"
    );
    assert!(before.iter().chain(after).all(|byte| *byte == 9), "{name}");
}

#[test]
pub fn fills_of_every_width_and_copies_of_both_patterns() {
    // From an address that is no multiple of the size on, byte by byte.
    for first in [0, 1, 2, 5] {
        filled("fill_u8", 0xab_u8, first);
        filled("fill_u16", 0xabcd_u16, first);
        filled("fill_u32", 0x89ab_cdef_u32, first);
        filled("fill_u64", 0x0123_4567_89ab_cdef_u64, first);
    }
    let mut arrays = Arrays::default();
    let values = values(4096, 1.0);
    let (from, out, other) = (
        arrays.add(&values),
        arrays.add(&vec![0f32; 4096]),
        arrays.add(&vec![0f32; 4096]),
    );
    run(
        "copy",
        "copy_coalesced_f32",
        [4, 1],
        256,
        with![from, out, 4096u64],
        &arrays,
    );
    run(
        "copy",
        "copy_strided_f32",
        [4, 1],
        256,
        with![from, other, 4096u64, 32u64],
        &arrays,
    );
    assert!(arrays.get::<f32>(out) == values && arrays.get::<f32>(other) == values);
}

#[test]
pub fn sums_in_the_order_of_the_kernel() {
    let values = values(10_000, 0.01);
    let mut arrays = Arrays::default();
    let (from, out, naive) = (
        arrays.add(&values),
        arrays.add(&[0f32; 4]),
        arrays.add(&[0f32]),
    );
    run(
        "reduce",
        "reduce_sum_f32",
        [4, 1],
        256,
        with![from, out, 10_000u64],
        &arrays,
    );
    let sum = |block: usize| {
        let mut sums: Vec<f32> = (0..256)
            .map(|thread| {
                values
                    .iter()
                    .skip(block * 256 + thread)
                    .step_by(1024)
                    .fold(0.0, |sum, value| sum + value)
            })
            .collect();
        for half in [128, 64, 32, 16, 8, 4, 2, 1] {
            for thread in 0..half {
                sums[thread] += sums[thread + half];
            }
        }
        sums[0]
    };
    assert_eq!(arrays.get::<f32>(out), (0..4).map(sum).collect::<Vec<_>>());
    run(
        "reduce",
        "reduce_sum_naive_f32",
        [40, 1],
        256,
        with![from, naive, 10_000u64],
        &arrays,
    );
    let exact: f64 = values.iter().map(|value| f64::from(*value)).sum();
    assert!((f64::from(arrays.get::<f32>(naive)[0]) - exact).abs() < 1.0);
}

#[test]
pub fn the_best_targets_of_a_search() {
    search([70, 150, 37], 5, 2, 2);
    // More places than a warp has lanes, and than a chunk has targets.
    search([3, 90, 5], 40, 2, 1);
    search([2, 700, 3], 40, 1, 2);
}

/// Numbers of queries, of targets, and of elements; places, chunks, and blocks of the last kernel.
fn search([queries, targets, dim]: [usize; 3], k: usize, chunks: usize, blocks: u32) {
    let (mut query, mut target) = (values(queries * dim, 0.11), values(targets * dim, 0.07));
    // A row of zeros, equal rows, one with a huge element, and a tiny one.
    target[dim..2 * dim].fill(0.0);
    target.copy_within(3 * dim..4 * dim, 60 * dim);
    target[6 * dim - 1] *= 1e36;
    query[dim..2 * dim]
        .iter_mut()
        .for_each(|value| *value *= 1e-36);
    let mut arrays = Arrays::default();
    let [q, t] = [arrays.add(&query), arrays.add(&target)];
    let [qs, ts] = [queries, targets].map(|rows| arrays.add(&vec![0f32; rows * 2]));
    let (lists, chunk) = (
        queries * chunks * k,
        targets.div_ceil(chunks).next_multiple_of(64),
    );
    let [scores, best] = [lists, queries * k].map(|places| arrays.add(&vec![0f32; places]));
    let [indices, found] = [lists, queries * k].map(|places| arrays.add(&vec![0u32; places]));
    let with = |values: &[u64]| {
        values
            .iter()
            .fold(Parameters::default(), |all, value| all.with(*value))
    };
    for (rows, scales, count) in [(q, qs, queries), (t, ts, targets)] {
        let parameters = with(&[rows, scales, count as u64, dim as u64]);
        run(
            "cosine_top_k",
            "row_scales",
            [(count as u32).div_ceil(8), 1],
            256,
            parameters,
            &arrays,
        );
    }
    let sizes = [queries, targets, dim, chunk].map(|size| size as u64);
    let parameters = with(&[&[q, t, qs, ts, scores, indices], &sizes[..]].concat()).with(k as u32);
    let grid = [(queries as u32).div_ceil(64), chunks as u32];
    run(
        "cosine_top_k",
        "cosine_top_k_partial",
        grid,
        256,
        parameters,
        &arrays,
    );
    let merge = with(&[scores, indices, best, found, queries as u64, chunks as u64]).with(k as u32);
    run(
        "cosine_top_k",
        "cosine_top_k_merge",
        [blocks, 1],
        256,
        merge,
        &arrays,
    );

    let row = |of: &[f32], index: usize| {
        of[index * dim..][..dim]
            .iter()
            .map(|value| f64::from(*value))
            .collect::<Vec<_>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for index in 0..queries {
        let query = row(&query, index);
        let cosine = |of: usize| {
            let target = row(&target, of);
            let norms = (dot(&query, &query) * dot(&target, &target)).sqrt();
            if norms == 0.0 {
                0.0
            } else {
                dot(&query, &target) / norms
            }
        };
        let check = |range: std::ops::Range<usize>, scores: &[f32], indices: &[u32]| {
            let mut wanted: Vec<f64> = range.map(cosine).collect();
            wanted.sort_by(|a, b| b.total_cmp(a));
            let mut last = (f32::INFINITY, 0);
            for place in 0..k {
                let (score, found) = (scores[place], indices[place]);
                let Some(wanted) = wanted.get(place) else {
                    assert_eq!(
                        (score, found),
                        (f32::NEG_INFINITY, u32::MAX),
                        "{index} {place}"
                    );
                    continue;
                };
                assert!((f64::from(score) - wanted).abs() < 1e-5, "{index} {place}");
                assert!(
                    (cosine(found as usize) - wanted).abs() < 1e-5,
                    "{index} {place}"
                );
                assert!(
                    score < last.0 || score == last.0 && found > last.1,
                    "{index} {place}"
                );
                last = (score, found);
            }
        };
        let (all, which) = (arrays.get::<f32>(scores), arrays.get::<u32>(indices));
        for part in 0..chunks {
            let range = part * chunk..targets.min((part + 1) * chunk);
            let at = (index * chunks + part) * k;
            check(range, &all[at..], &which[at..]);
        }
        let (all, which) = (arrays.get::<f32>(best), arrays.get::<u32>(found));
        check(0..targets, &all[index * k..], &which[index * k..]);
    }
}
