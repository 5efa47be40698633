//! Batch cosine similarity: kernels and CPU reference against plain float64.

use crate::kernels::noise;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_testkit::device;
use um_kernels::{CosineTopK, TopKShape, cosine_top_k_cpu};

/// A sum of products is 16 at a time, so that a row of n elements has at most 16 + n/16 roundings in a chain: less than this for
/// n ≤ 2000. Lists may differ only if two cosines differ by less than twice the bound.
const BOUND: f64 = 1e-5;

type Lists = (Vec<f32>, Vec<u32>);

fn shape(queries: usize, targets: usize, dim: usize, k: usize) -> TopKShape {
    TopKShape {
        queries,
        targets,
        dim,
        k,
    }
}

/// The lists of the kernels and of the reference. On the device, rows begin `start` elements after the begin of their buffers.
fn both(shape: TopKShape, start: usize, queries: &[f32], targets: &[f32]) -> [Lists; 2] {
    let (_sim, device, stream) = device();
    let later = |rows| [&vec![f32::NAN; start][..], rows].concat();
    let on_device = DeviceBuffer::from_slice(&device, &later(targets)).unwrap();
    let unified = UnifiedBuffer::from_slice(&device, &later(queries)).unwrap();
    let mut scores = UnifiedBuffer::zeroed(&device, shape.queries * shape.k).unwrap();
    let mut indices = UnifiedBuffer::zeroed(&device, shape.queries * shape.k).unwrap();
    let (q, t) = (
        unified.view(start..).unwrap(),
        on_device.view(start..).unwrap(),
    );
    let kernels = CosineTopK::load(&device).unwrap();
    kernels
        .launch(&stream, shape, q, t, &mut scores, &mut indices)
        .unwrap();
    let found = (
        scores.host().unwrap().to_vec(),
        indices.host().unwrap().to_vec(),
    );
    let (mut scores, mut indices) = (vec![0.0; found.0.len()], vec![0; found.0.len()]);
    cosine_top_k_cpu(
        queries,
        targets,
        shape.dim,
        shape.k,
        &mut scores,
        &mut indices,
    );
    [found, (scores, indices)]
}

/// Every cosine in float64. NaN for rows that are not finite.
fn exact(shape: TopKShape, queries: &[f32], targets: &[f32]) -> Vec<Vec<f64>> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let cosine = |q: &[f32], t: &[f32]| {
        let norms = dot(q, q).sqrt() * dot(t, t).sqrt();
        if norms == 0.0 { 0.0 } else { dot(q, t) / norms }
    };
    let targets: Vec<&[f32]> = targets.chunks(shape.dim).collect();
    let queries = queries.chunks(shape.dim);
    queries
        .map(|q| targets.iter().map(|t| cosine(q, t)).collect())
        .collect()
}

/// Lists must be sorted, name each target once, have the right cosines, and contain every target that is better by more than
/// rounding.
fn check(shape: TopKShape, start: usize, queries: &[f32], targets: &[f32]) {
    let exact = exact(shape, queries, targets);
    for (scores, indices) in both(shape, start, queries, targets) {
        let lists = scores.chunks(shape.k).zip(indices.chunks(shape.k));
        for (row, (scores, indices)) in exact.iter().zip(lists) {
            for place in 1..shape.k {
                let (before, here) = (scores[place - 1], scores[place]);
                let in_order =
                    before > here || (before == here && indices[place - 1] < indices[place]);
                assert!(
                    in_order || here == f32::NEG_INFINITY,
                    "{shape:?}: {scores:?} {indices:?}"
                );
            }
            let filled = indices.iter().filter(|index| **index != u32::MAX).count();
            assert_eq!(
                filled,
                row.iter()
                    .filter(|cosine| !cosine.is_nan())
                    .count()
                    .min(shape.k)
            );
            for (score, index) in scores.iter().zip(indices).take(filled) {
                let right = row[*index as usize];
                assert!(
                    (f64::from(*score) - right).abs() <= BOUND,
                    "{shape:?}, {index}: {score}, exactly {right}"
                );
            }
            let worst = f64::from(scores[shape.k - 1]);
            for (index, cosine) in row.iter().enumerate() {
                let listed = cosine.is_nan() || indices.contains(&(index as u32));
                assert!(
                    listed || *cosine <= worst + 2.0 * BOUND,
                    "{shape:?}: {index} with {cosine} is missing"
                );
            }
        }
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
        (9, 1100, 6, 1024),
        (257, 300, 770, 10),
        // With 132 multiprocessors, chunks of several tiles.
        (1000, 4300, 4, 7),
    ] {
        let (q, t) = (noise(7, queries * dim), noise(8, targets * dim));
        for start in [0, 1] {
            check(shape(queries, targets, dim, k), start, &q, &t);
        }
    }
}

/// The squares and products of such rows overflow or underflow in single precision, and those of the last ones are subnormal.
#[test]
fn rows_of_any_finite_elements_have_the_cosine_of_float64() {
    let (count, dim) = (40, 70);
    let lengths = [1e20f32, 1e-22, 3e38, 1e-38, 1e-42, 1.0, 1e15, 1e-15];
    let rows = |seed| -> Vec<f32> {
        let rows = noise(seed, count * dim);
        let rows = rows.chunks(dim).zip(lengths.into_iter().cycle());
        rows.flat_map(|(row, length)| row.iter().map(move |value| value * length))
            .collect()
    };
    let (mut q, mut t) = (rows(9), rows(10));
    // One element far larger than the others; all elements equal; the smallest number there is.
    (q[0], t[3]) = (f32::MAX, -f32::MAX);
    q[dim..2 * dim].fill(1e20);
    t[dim..2 * dim].fill(1e-22);
    t[2 * dim..3 * dim].fill(f32::from_bits(1));
    check(shape(count, count, dim, count), 0, &q, &t);
    // Each rounding of a plain sum has the same sign.
    check(shape(2, 3, 2000, 3), 0, &[0.1; 2 * 2000], &[0.3; 3 * 2000]);
}

#[test]
fn equal_cosines_keep_the_lower_index_first() {
    // Powers of two: every cosine is exact, and many are equal.
    let shape = shape(2, 300, 4, 20);
    let q = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let row = |i| {
        if i % 3 == 0 {
            [2.0, 0.0, 0.0, 0.0]
        } else {
            [0.0, 4.0, 0.0, 0.0]
        }
    };
    let t: Vec<f32> = (0..shape.targets).flat_map(row).collect();
    for (scores, indices) in both(shape, 0, &q, &t) {
        let thirds: Vec<u32> = (0..20).map(|i| i * 3).collect();
        let others: Vec<u32> = (0..).filter(|i| i % 3 != 0).take(20).collect();
        assert_eq!(indices, [thirds, others].concat());
        assert!(scores.iter().all(|score| *score == 1.0), "{scores:?}");
    }
}

#[test]
fn zeros_have_cosine_zero_and_nan_is_in_no_list() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let q = [0.0, 0.0, 1.0, 0.0, nan, 1.0];
    let t = [0.0, 0.0, -1.0, 0.0, nan, 0.0, 5.0, 0.0, inf, 1.0];
    let none = f32::NEG_INFINITY;
    for (scores, indices) in both(shape(3, 5, 2, 4), 0, &q, &t) {
        assert_eq!(scores[..8], [0.0, 0.0, 0.0, none, 1.0, 0.0, -1.0, none]);
        assert_eq!(indices[..8], [0, 1, 3, u32::MAX, 3, 0, 1, u32::MAX]);
        assert_eq!(
            (&scores[8..], &indices[8..]),
            (&[none; 4][..], &[u32::MAX; 4][..])
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
        (shape(2, 3, 4, 0), "k"),
        (shape(2, 3, 4, 4), "k"),
        (shape(2, usize::MAX, 4, 3), "targets"),
        (shape(usize::MAX, 3, 4, 3), "queries"),
    ] {
        let error = launch(shape);
        let start = format!("cosine_top_k cannot be launched with {parameter} = ");
        assert!(error.to_string().starts_with(&start), "{error}");
    }
    for (shape, error) in [
        (shape(3, 3, 4, 2), "8 elements of `queries`: 12 are needed"),
        (shape(2, 4, 4, 3), "12 elements of `targets`: 16 are needed"),
        (
            shape(2, 3, usize::MAX, 3),
            "8 elements of `queries`: 18446744073709551615 are needed",
        ),
        (shape(2, 3, 4, 2), "6 elements of `scores`: 4 are needed"),
    ] {
        let error = format!("cosine_top_k cannot be launched with {error}");
        assert_eq!(launch(shape).to_string(), error);
    }
}

#[test]
fn a_captured_search_finds_the_same_lists() {
    let (_sim, device, stream) = device();
    let shape = shape(20, 300, 40, 5);
    let (q, t) = (noise(31, 20 * 40), noise(32, 300 * 40));
    let queries = DeviceBuffer::from_slice(&device, &q).unwrap();
    let targets = DeviceBuffer::from_slice(&device, &t).unwrap();
    let mut scores = DeviceBuffer::<f32>::zeroed(&device, 100).unwrap();
    let mut indices = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let kernels = CosineTopK::load(&device).unwrap();
    let (scores_of_graph, indices_of_graph) = (&mut scores, &mut indices);
    let graph = stream.capture(|_| {
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
    let buffers = (&queries, &targets, &mut scores, &mut indices);
    exec.launch(&stream, buffers).unwrap();
    let lists = (scores.to_vec().unwrap(), indices.to_vec().unwrap());
    assert_eq!(lists, both(shape, 0, &q, &t)[0]);
}
