//! Batch cosine similarity: compares the CPU reference with plain float64, and the kernels with the CPU reference.

use crate::support::noise;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_testkit::device;
use half::{bf16, f16};
use proptest::prelude::*;
use um_search::{CosineTopK, Scalar, SearchError, TargetScalar, TopKShape, cosine_top_k_cpu};

/// The rounding bound. A dot product and two norms of n terms together have a relative error of at most about 1.5 · n · ε, in
/// any order of additions: 1.2e-5 for the largest n here, 70. Random errors stay √n times below. Lists may differ only if two
/// cosines differ by less than twice the bound.
const BOUND: f64 = 1e-5;

fn exact(queries: &[f32], targets: &[f32], dim: usize) -> Vec<Vec<f64>> {
    let norm = |row: &[f32]| {
        row.iter()
            .map(|x| f64::from(*x).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let cosine = |q: &[f32], t: &[f32]| {
        let norms = norm(q) * norm(t);
        let dot: f64 = q
            .iter()
            .zip(t)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum();
        if norms > 0.0 { dot / norms } else { 0.0 }
    };
    queries
        .chunks(dim)
        .map(|q| targets.chunks(dim).map(|t| cosine(q, t)).collect())
        .collect()
}

/// Lists must be sorted, name each target once, have the right cosines, and contain every target that is better by more than
/// rounding.
fn check(exact: &[Vec<f64>], k: usize, scores: &[f32], indices: &[u32]) {
    for (query, (row, (scores, indices))) in exact
        .iter()
        .zip(scores.chunks(k).zip(indices.chunks(k)))
        .enumerate()
    {
        for place in 0..k {
            let (score, index) = (f64::from(scores[place]), indices[place] as usize);
            assert!(
                (score - row[index]).abs() <= BOUND,
                "query {query}: cosine with {index} is {score}, exactly {}",
                row[index]
            );
            if place > 0 {
                let before = (scores[place - 1], indices[place - 1]);
                assert!(
                    before.0 > scores[place]
                        || (before.0 == scores[place] && before.1 < indices[place]),
                    "query {query}: order"
                );
            }
        }
        let worst = f64::from(scores[k - 1]);
        for (index, cosine) in row.iter().enumerate() {
            assert!(
                indices.contains(&(index as u32)) || *cosine <= worst + 2.0 * BOUND,
                "query {query}: target {index} with {cosine} is missing, the last has {worst}"
            );
        }
    }
}

fn on_device<T: TargetScalar>(
    shape: TopKShape,
    queries: &[f32],
    targets: &[T],
) -> (Vec<f32>, Vec<u32>) {
    on_device_from(0, shape, queries, targets)
}

/// With queries and targets that begin `start` elements after the begin of their buffers.
fn on_device_from<T: TargetScalar>(
    start: usize,
    shape: TopKShape,
    queries: &[f32],
    targets: &[T],
) -> (Vec<f32>, Vec<u32>) {
    let (_sim, device, stream) = device();
    let kernels = CosineTopK::load(&device).unwrap();
    let queries = [&queries[..start], queries].concat();
    let targets = [&targets[..start], targets].concat();
    let queries = UnifiedBuffer::from_slice(&device, &queries).unwrap();
    let targets = DeviceBuffer::from_slice(&device, &targets).unwrap();
    let mut scores = UnifiedBuffer::zeroed(&device, shape.queries * shape.k).unwrap();
    let mut indices = UnifiedBuffer::zeroed(&device, shape.queries * shape.k).unwrap();
    kernels
        .launch(
            &stream,
            shape,
            queries.view(start..).unwrap(),
            targets.view(start..).unwrap(),
            &mut scores,
            &mut indices,
        )
        .unwrap();
    (
        scores.host().unwrap().to_vec(),
        indices.host().unwrap().to_vec(),
    )
}

fn reference<T: Scalar>(shape: TopKShape, queries: &[f32], targets: &[T]) -> (Vec<f32>, Vec<u32>) {
    let (mut scores, mut indices) = (
        vec![0.0; shape.queries * shape.k],
        vec![0; shape.queries * shape.k],
    );
    cosine_top_k_cpu(
        queries,
        targets,
        shape.dim,
        shape.k,
        &mut scores,
        &mut indices,
    );
    (scores, indices)
}

#[test]
fn norms_of_no_elements_are_zero() {
    let mut norms = [1.0; 3];
    um_search::row_inverse_norms_cpu::<f32>(&[], 0, &mut norms);
    assert_eq!(norms, [0.0; 3]);
    um_search::row_inverse_norms_cpu(&[3.0f32, 4.0], usize::MAX, &mut norms);
    assert_eq!(norms, [0.0; 3], "no whole row");
}

fn shape(queries: usize, targets: usize, dim: usize, k: usize) -> TopKShape {
    TopKShape {
        queries,
        targets,
        dim,
        k,
    }
}

#[test]
fn shapes_around_the_tiles() {
    for (queries, targets, dim, k) in [
        (1, 1, 1, 1),
        (1, 64, 16, 64),
        (63, 65, 15, 5),
        (64, 64, 16, 10),
        (65, 129, 17, 33),
        (130, 1000, 96, 128),
        (3, 5000, 40, 300),
    ] {
        let shape = shape(queries, targets, dim, k);
        let (q, t) = (noise(7, queries * dim), noise(8, targets * dim));
        let exact = exact(&q, &t, dim);
        for (scores, indices) in [on_device(shape, &q, &t), reference(shape, &q, &t)] {
            check(&exact, k, &scores, &indices);
        }
    }
}

#[test]
fn half_precision_targets() {
    let shape = shape(70, 200, 50, 7);
    let (q, t) = (
        noise(9, shape.queries * shape.dim),
        noise(10, shape.targets * shape.dim),
    );
    let narrow: Vec<f16> = t.iter().map(|value| f16::from_f32(*value)).collect();
    let wide: Vec<f32> = narrow.iter().map(|value| value.to_f32()).collect();
    let exact = exact(&q, &wide, shape.dim);
    for (scores, indices) in [on_device(shape, &q, &narrow), reference(shape, &q, &narrow)] {
        check(&exact, shape.k, &scores, &indices);
    }
}

/// Rows of every finite size, in turn.
fn of_every_size(seed: u64, rows: usize, dim: usize) -> Vec<f32> {
    const SIZES: [f32; 11] = [
        1.0, 1e20, 1e-22, 3e38, 1e-38, 2e-43, 1e13, 1e-30, 1e30, 1e-12, 1e18,
    ];
    let mut all = noise(seed, rows * dim);
    for (row, elements) in all.chunks_mut(dim).enumerate() {
        let size = SIZES[(row + seed as usize) % SIZES.len()];
        elements.iter_mut().for_each(|value| *value *= size);
    }
    all
}

#[test]
fn rows_of_every_finite_size_have_the_cosines_of_float64() {
    // The last two are for the kernels of few queries.
    for (queries, targets, dim) in [
        (70, 300, 40),
        (9, 150, 3),
        (3, 16 << 10, 128),
        (5, 16 << 10, 20),
    ] {
        let shape = shape(queries, targets, dim, 12);
        let (q, t) = (
            of_every_size(21, queries, dim),
            of_every_size(22, targets, dim),
        );
        let right = exact(&q, &t, dim);
        let narrow: Vec<bf16> = t.iter().map(|value| bf16::from_f32(*value)).collect();
        let wide: Vec<f32> = narrow.iter().map(|value| value.to_f32()).collect();
        let right_of_narrow = exact(&q, &wide, dim);
        for (scores, indices) in [on_device(shape, &q, &t), reference(shape, &q, &t)] {
            check(&right, shape.k, &scores, &indices);
        }
        // Rows that begin at a multiple of 8 bytes have another kernel for few queries.
        for (scores, indices) in [
            on_device(shape, &q, &narrow),
            on_device_from(4, shape, &q, &narrow),
            reference(shape, &q, &narrow),
        ] {
            check(&right_of_narrow, shape.k, &scores, &indices);
        }
    }
    let mut norms = [0.0; 4];
    let rows = [1e20, 0.0, 0.0, 1e-22, 3e38, 0.0, 0.0, 0.0f32];
    um_search::row_inverse_norms_cpu(&rows, 2, &mut norms);
    for (norm, right) in norms.iter().zip([1e-20, 1e22, 1.0 / 3e38, 0.0]) {
        assert!(
            (f64::from(*norm) - right).abs() <= right * 1e-5,
            "{norm} {right}"
        );
    }
}

#[test]
fn a_captured_search_finds_the_same_lists() {
    let (_sim, device, stream) = device();
    // Few queries, and more of them.
    for shape in [shape(3, 16 << 10, 128, 5), shape(20, 300, 40, 5)] {
        let (q, t) = (
            noise(31, shape.queries * shape.dim),
            noise(32, shape.targets * shape.dim),
        );
        let queries = DeviceBuffer::from_slice(&device, &q).unwrap();
        let targets = DeviceBuffer::from_slice(&device, &t).unwrap();
        let results = shape.queries * shape.k;
        let mut scores = DeviceBuffer::<f32>::zeroed(&device, results).unwrap();
        let mut indices = DeviceBuffer::<u32>::zeroed(&device, results).unwrap();
        let (scores_of_graph, indices_of_graph) = (&mut scores, &mut indices);
        let graph = stream.capture(|_| {
            let kernels = CosineTopK::load(&device).unwrap();
            let rows = (&queries, &targets);
            kernels
                .launch(
                    &stream,
                    shape,
                    rows.0,
                    rows.1,
                    scores_of_graph,
                    indices_of_graph,
                )
                .unwrap();
            Ok(())
        });
        let mut exec = graph.unwrap().instantiate().unwrap();
        for _ in 0..2 {
            scores.fill(0.0).unwrap();
            let buffers = (&queries, &targets, &mut scores, &mut indices);
            exec.launch(&stream, buffers).unwrap();
            let (scores, indices) = (scores.to_vec().unwrap(), indices.to_vec().unwrap());
            assert_eq!((scores, indices), on_device(shape, &q, &t));
        }
    }
}

#[test]
fn equal_cosines_keep_the_lower_index_first() {
    // Powers of two: every cosine is exact, and many are equal.
    let shape = shape(2, 300, 4, 20);
    let q: Vec<f32> = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0].to_vec();
    let t: Vec<f32> = (0..shape.targets)
        .flat_map(|i| {
            if i % 3 == 0 {
                [2.0, 0.0, 0.0, 0.0]
            } else {
                [0.0, 4.0, 0.0, 0.0]
            }
        })
        .collect();
    for (scores, indices) in [on_device(shape, &q, &t), reference(shape, &q, &t)] {
        let thirds: Vec<u32> = (0..20).map(|i| i * 3).collect();
        let others: Vec<u32> = (0..).filter(|i| i % 3 != 0).take(20).collect();
        assert_eq!(indices, [thirds, others].concat());
        assert!(scores.iter().all(|score| *score == 1.0), "{scores:?}");
    }
}

#[test]
fn a_row_of_zeros_has_cosine_zero() {
    let shape = shape(2, 3, 2, 3);
    let (q, t) = ([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, -1.0, 0.0, 5.0, 0.0f32]);
    for (scores, indices) in [on_device(shape, &q, &t), reference(shape, &q, &t)] {
        assert_eq!(scores, [0.0, 0.0, 0.0, 1.0, 0.0, -1.0]);
        assert_eq!(indices, [0, 1, 2, 2, 0, 1]);
    }
}

/// Rows of small whole numbers, so that every sum is exact in any order, and every cosine is bit-identical. The first 29
/// targets are repeated; they include a row of zeros and a row with a NaN. There is also a query of zeros and a query with a
/// NaN.
fn whole_numbers(shape: TopKShape) -> (Vec<f32>, Vec<f32>) {
    let row = |seed: usize, of: usize| {
        let mut row = noise((seed + of) as u64, shape.dim);
        row.iter_mut().for_each(|x| *x = (*x * 8.0).round());
        match of {
            5 => row.fill(0.0),
            7 => row[shape.dim / 2] = f32::NAN,
            _ => {}
        }
        row
    };
    (
        (0..shape.queries).flat_map(|i| row(1000, i)).collect(),
        (0..shape.targets).flat_map(|i| row(0, i % 29)).collect(),
    )
}

/// All cosines with the rounding of the kernels, sorted.
fn sorted(shape: TopKShape, queries: &[f32], targets: &[f32]) -> (Vec<f32>, Vec<u32>) {
    let norm = |row: &[f32]| {
        let sum: f32 = row.iter().map(|x| x * x).sum();
        if sum > 0.0 { 1.0 / sum.sqrt() } else { 0.0 }
    };
    let norms: Vec<f32> = targets.chunks(shape.dim).map(norm).collect();
    let mut lists = (Vec::new(), Vec::new());
    for query in queries.chunks(shape.dim) {
        let query_norm = norm(query);
        let dot = |t: &[f32]| query.iter().zip(t).map(|(a, b)| a * b).sum::<f32>();
        let mut all: Vec<(f32, u32)> = targets
            .chunks(shape.dim)
            .zip(&norms)
            .map(|(target, norm)| dot(target) * query_norm * norm)
            .zip(0..)
            .filter(|(score, _)| !score.is_nan())
            .collect();
        // Stable: for equal cosines the lower index stays first.
        all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
        all.resize(shape.k.max(all.len()), (f32::NEG_INFINITY, u32::MAX));
        lists.0.extend(all[..shape.k].iter().map(|place| place.0));
        lists.1.extend(all[..shape.k].iter().map(|place| place.1));
    }
    lists
}

#[test]
fn repeated_rows_zeros_and_nan_in_exact_order() {
    for (queries, targets, dim, k) in [
        (9, 8, 1, 8),
        (1, 29, 3, 29),
        (12, 5, 3, 5),
        (129, 129, 8, 1),
        (130, 1000, 70, 100),
        (70, 777, 41, 150),
        (200, 600, 36, 33),
        (128, 512, 32, 32),
        (40, 2000, 33, 33),
        (257, 300, 20, 10),
        (10, 1000, 768, 1000),
        (9, 1025, 772, 32),
        (8, 1100, 6, 1024),
        (300, 129, 12, 129),
    ] {
        has_exact_order(shape(queries, targets, dim, k));
    }
}

/// From three starts: rows are aligned to 16, 8 and 4 bytes, and in half precision to 16, 4 and 2.
fn has_exact_order(shape: TopKShape) {
    let (q, t) = whole_numbers(shape);
    let narrow: Vec<f16> = t.iter().map(|value| f16::from_f32(*value)).collect();
    let right = sorted(shape, &q, &t);
    assert_eq!(reference(shape, &q, &t), right, "{shape:?}");
    assert_eq!(reference(shape, &q, &narrow), right, "{shape:?}");
    for start in [0, 2, 1].into_iter().filter(|start| *start <= shape.dim) {
        let found = on_device_from(start, shape, &q, &t);
        assert_eq!(found, right, "{shape:?} from {start}");
        let found = on_device_from(start, shape, &q, &narrow);
        assert_eq!(found, right, "{shape:?}, f16 from {start}");
    }
}

/// Many scores are equal, in tiles that any block may score.
#[test]
fn few_queries_in_exact_order() {
    for (queries, dim, k) in [(1, 128, 10), (5, 256, 33), (12, 128, 200)] {
        has_exact_order(shape(queries, 16_400, dim, k));
    }
}

#[test]
fn chunks_of_several_tiles() {
    // On a GPU with 132 multiprocessors: chunks of two and of several tiles.
    for (queries, targets, k) in [(1000, 20_000, 10), (2500, 9_000, 33)] {
        let shape = shape(queries, targets, 4, k);
        let (q, t) = whole_numbers(shape);
        assert_eq!(
            on_device(shape, &q, &t),
            reference(shape, &q, &t),
            "{shape:?}"
        );
    }
}

#[test]
fn impossible_shapes_are_refused() {
    let (_sim, device, stream) = device();
    let kernels = CosineTopK::load(&device).unwrap();
    let queries = UnifiedBuffer::from_slice(&device, &[1.0f32; 8]).unwrap();
    let targets = UnifiedBuffer::from_slice(&device, &[1.0f32; 12]).unwrap();
    let mut scores = UnifiedBuffer::<f32>::zeroed(&device, 6).unwrap();
    let mut indices = UnifiedBuffer::<u32>::zeroed(&device, 6).unwrap();
    let mut launch = |shape| {
        kernels
            .launch(
                &stream,
                shape,
                &queries,
                &targets,
                &mut scores,
                &mut indices,
            )
            .unwrap_err()
    };
    for (shape, parameter) in [
        (shape(2, 3, 0, 3), "dim"),
        // The kernels would count its stages wrongly, and score only a part of each row.
        (shape(2, 3, (16 << 32) - 15, 3), "dim"),
        (shape(2, 3, usize::MAX, 3), "dim"),
        (shape(2, 3, 4, 0), "k"),
        (shape(2, 3, 4, 4), "k"),
        (shape(2, usize::MAX, 4, 3), "targets"),
        (shape(usize::MAX, 3, 4, 3), "queries"),
    ] {
        let error = launch(shape);
        assert!(
            matches!(error, SearchError::Value { parameter: named, .. } if named == parameter),
            "{error}"
        );
    }
    for (shape, buffer, expected, found) in [
        (shape(3, 3, 4, 2), "queries", 12, 8),
        (shape(2, 4, 4, 3), "targets", 16, 12),
        (
            shape(2, 3, (16 << 32) - 16, 3),
            "queries",
            (32_usize << 32) - 32,
            8,
        ),
        (shape(2, 3, 4, 2), "scores", 4, 6),
    ] {
        let error = launch(shape).to_string();
        assert_eq!(
            error,
            format!("cosine_top_k: `{buffer}` has {found} elements, {expected} are needed")
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reference_and_kernels_agree_with_float64(
        queries in 1usize..40, targets in 1usize..150, dim in 1usize..70, k in 1usize..150, seed in 0u64..1000,
    ) {
        let shape = shape(queries, targets, dim, k.min(targets));
        let (q, t) = (noise(seed, queries * dim), noise(seed + 1, targets * dim));
        let exact = exact(&q, &t, dim);
        for (scores, indices) in [on_device(shape, &q, &t), reference(shape, &q, &t)] {
            check(&exact, shape.k, &scores, &indices);
        }
    }
}
