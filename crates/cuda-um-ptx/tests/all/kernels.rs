//! The kernels of `kernels/ptx`, against Rust.

use cuda_um_ptx::{Checks, Launch};

use crate::support::{Arrays, Parameters, program};

fn run(
    file: &str,
    name: &str,
    grid: [u32; 3],
    block: u32,
    parameters: Parameters,
    arrays: &Arrays,
) {
    let path = format!(
        "{}/../../kernels/ptx/{file}.ptx",
        env!("CARGO_MANIFEST_DIR")
    );
    let program = program(&std::fs::read_to_string(path).unwrap(), name);
    let launch = Launch {
        grid,
        block: [block, 1, 1],
        parameters: &parameters.0,
        checks: Checks::ALL,
        seed: 3,
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
fn scale_and_saxpy() {
    let values = values(1000, 0.37);
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&vec![1f32; 1000]), arrays.add(&values));
    run(
        "scale",
        "scale_f32",
        [3, 1, 1],
        128,
        Parameters::default()
            .with(from)
            .with(out)
            .with(2.5f32)
            .with(1000u64),
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
        [2, 1, 1],
        64,
        Parameters::default()
            .with(-0.7f32)
            .with(x)
            .with(y)
            .with(1000u64),
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

#[test]
fn fills_of_every_width_and_copies_of_both_patterns() {
    let mut arrays = Arrays::default();
    let bytes = arrays.add(&[9u8; 1001]);
    run(
        "fill",
        "fill_u8",
        [2, 1, 1],
        256,
        Parameters::default().with(bytes).with(0xabu8).with(1000u64),
        &arrays,
    );
    assert_eq!(
        arrays.get::<u8>(bytes),
        [vec![0xab; 1000], vec![9]].concat()
    );
    let halves = arrays.add(&[9u16; 1001]);
    run(
        "fill",
        "fill_u16",
        [2, 1, 1],
        256,
        Parameters::default()
            .with(halves)
            .with(0xabcdu16)
            .with(1000u64),
        &arrays,
    );
    assert_eq!(
        arrays.get::<u16>(halves),
        [vec![0xabcd; 1000], vec![9]].concat()
    );
    let words = arrays.add(&[9u32; 1001]);
    run(
        "fill",
        "fill_u32",
        [2, 1, 1],
        256,
        Parameters::default()
            .with(words)
            .with(0xabcd_ef01u32)
            .with(1000u64),
        &arrays,
    );
    assert_eq!(
        arrays.get::<u32>(words),
        [vec![0xabcd_ef01; 1000], vec![9]].concat()
    );
    let longs = arrays.add(&[9u64; 1001]);
    run(
        "fill",
        "fill_u64",
        [2, 1, 1],
        256,
        Parameters::default()
            .with(longs)
            .with(u64::MAX - 5)
            .with(1000u64),
        &arrays,
    );
    assert_eq!(
        arrays.get::<u64>(longs),
        [vec![u64::MAX - 5; 1000], vec![9]].concat()
    );

    let values = values(4096, 1.0);
    let (from, out, other) = (
        arrays.add(&values),
        arrays.add(&vec![0f32; 4096]),
        arrays.add(&vec![0f32; 4096]),
    );
    run(
        "copy",
        "copy_coalesced_f32",
        [4, 1, 1],
        256,
        Parameters::default().with(from).with(out).with(4096u64),
        &arrays,
    );
    run(
        "copy",
        "copy_strided_f32",
        [4, 1, 1],
        256,
        Parameters::default()
            .with(from)
            .with(other)
            .with(4096u64)
            .with(32u64),
        &arrays,
    );
    assert!(arrays.get::<f32>(out) == values && arrays.get::<f32>(other) == values);
}

#[test]
fn sums_in_the_order_of_the_kernel() {
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
        [4, 1, 1],
        256,
        Parameters::default().with(from).with(out).with(10_000u64),
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
        [40, 1, 1],
        256,
        Parameters::default().with(from).with(naive).with(10_000u64),
        &arrays,
    );
    let exact: f64 = values.iter().map(|value| f64::from(*value)).sum();
    assert!((f64::from(arrays.get::<f32>(naive)[0]) - exact).abs() < 1.0);
}

#[test]
fn the_best_targets_of_a_search() {
    let (queries, targets, dim, k, chunks) = (70usize, 150usize, 37usize, 5usize, 2usize);
    let (query, target) = (values(queries * dim, 0.11), values(targets * dim, 0.07));
    let mut arrays = Arrays::default();
    let (q, t) = (arrays.add(&query), arrays.add(&target));
    let (qs, ts) = (
        arrays.add(&vec![0f32; queries * 2]),
        arrays.add(&vec![0f32; targets * 2]),
    );
    let lists = queries * chunks * k;
    let (scores, indices) = (
        arrays.add(&vec![0f32; lists]),
        arrays.add(&vec![0u32; lists]),
    );
    let (best, found) = (
        arrays.add(&vec![0f32; queries * k]),
        arrays.add(&vec![0u32; queries * k]),
    );
    for (rows, scales, count) in [(q, qs, queries), (t, ts, targets)] {
        let parameters = Parameters::default()
            .with(rows)
            .with(scales)
            .with(count as u64)
            .with(dim as u64);
        run(
            "cosine_top_k",
            "row_scales",
            [(count as u32).div_ceil(8), 1, 1],
            256,
            parameters,
            &arrays,
        );
    }
    let chunk = targets.div_ceil(chunks).next_multiple_of(64);
    let mut parameters = Parameters::default();
    for address in [q, t, qs, ts, scores, indices] {
        parameters = parameters.with(address);
    }
    for value in [queries, targets, dim, chunk] {
        parameters = parameters.with(value as u64);
    }
    run(
        "cosine_top_k",
        "cosine_top_k_partial",
        [(queries as u32).div_ceil(64), chunks as u32, 1],
        256,
        parameters.with(k as u32),
        &arrays,
    );
    let mut merge = Parameters::default();
    for address in [scores, indices, best, found] {
        merge = merge.with(address);
    }
    let merge = merge
        .with(queries as u64)
        .with(chunks as u64)
        .with(k as u32);
    run(
        "cosine_top_k",
        "cosine_top_k_merge",
        [3, 1, 1],
        256,
        merge,
        &arrays,
    );
    let (best, found) = (arrays.get::<f32>(best), arrays.get::<u32>(found));
    let (scores, indices) = (arrays.get::<f32>(scores), arrays.get::<u32>(indices));
    for row in 0..queries {
        let query = &query[row * dim..][..dim];
        let norm = |row: &[f32]| {
            row.iter()
                .map(|value| f64::from(*value).powi(2))
                .sum::<f64>()
                .sqrt()
        };
        let cosine = |of: usize| {
            let target = &target[of * dim..][..dim];
            query
                .iter()
                .zip(target)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum::<f64>()
                / norm(query)
                / norm(target)
        };
        for part in 0..chunks {
            let range = part * chunk..targets.min((part + 1) * chunk);
            let mut wanted: Vec<f64> = range.map(cosine).collect();
            wanted.sort_by(|a, b| b.total_cmp(a));
            for (place, wanted) in wanted.into_iter().take(k).enumerate() {
                let at = (row * chunks + part) * k + place;
                assert!(
                    (f64::from(scores[at]) - wanted).abs() < 1e-5,
                    "{row} {part} {place}"
                );
                assert!((cosine(indices[at] as usize) - wanted).abs() < 1e-5);
            }
        }
        let mut wanted: Vec<f64> = (0..targets).map(cosine).collect();
        wanted.sort_by(|a, b| b.total_cmp(a));
        for (place, wanted) in wanted.into_iter().take(k).enumerate() {
            assert!(
                (f64::from(best[row * k + place]) - wanted).abs() < 1e-5,
                "{row} {place}"
            );
            assert!((cosine(found[row * k + place] as usize) - wanted).abs() < 1e-5);
        }
    }
}
