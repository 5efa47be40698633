//! The CPU reference: the same lists as the kernels, up to rounding.

use std::ops::Range;

/// Targets that are scored against every query in turn, so that they stay in the second-level cache.
const TILE: usize = 64;

/// Rows of `dim` elements, and for each a power of two and the inverse norm of the row times that power.
#[derive(Clone, Copy)]
struct Rows<'a> {
    elements: &'a [f32],
    scales: &'a [[f32; 2]],
    dim: usize,
}

impl Rows<'_> {
    /// The rows times their powers of two.
    fn scaled(self, range: Range<usize>) -> Vec<f32> {
        let rows = self.elements[range.start * self.dim..range.end * self.dim].chunks(self.dim);
        let scales = &self.scales[range];
        rows.zip(scales)
            .flat_map(|(row, [power, _])| row.iter().map(move |value| value * power))
            .collect()
    }
}

/// A power of two that brings the largest element of the row near 1, and the inverse norm of the row times this power; 0 for a
/// row of zeros.
fn row_scale(row: &[f32]) -> [f32; 2] {
    let largest = row
        .iter()
        .fold(0.0f32, |largest, value| largest.max(value.abs()));
    // 2^-e for a largest element of 2^e to 2^(e+1), as far as it is a normal number.
    let power =
        f32::from_bits((254 - (largest.to_bits() >> 23) as i32).clamp(1, 254) as u32 * (1 << 23));
    let scaled: Vec<f32> = row.iter().map(|value| value * power).collect();
    let sum = dot(&scaled, &scaled);
    [power, if sum > 0.0 { 1.0 / sum.sqrt() } else { 0.0 }]
}

/// Sixteen sums at the same time, as a vector unit adds, and therefore with a sixteenth of the rounding error of one sum.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (a, b) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The best `k` targets for each query.
fn best_of(
    queries: Rows<'_>,
    targets: Rows<'_>,
    k: usize,
    scores: &mut [f32],
    indices: &mut [u32],
) {
    let (dim, count) = (queries.dim, targets.scales.len());
    let scaled_queries = queries.scaled(0..queries.scales.len());
    scores.fill(f32::NEG_INFINITY);
    indices.fill(u32::MAX);
    for first in (0..count).step_by(TILE) {
        let tile = first..(first + TILE).min(count);
        let scaled_targets = targets.scaled(tile.clone());
        let lists = scores.chunks_mut(k).zip(indices.chunks_mut(k));
        let queries = scaled_queries.chunks(dim).zip(queries.scales);
        for ((query, [_, query_norm]), (scores, indices)) in queries.zip(lists) {
            let targets = scaled_targets
                .chunks(dim)
                .zip(&targets.scales[tile.clone()]);
            for ((target, [_, norm]), index) in targets.zip(first as u32..) {
                let score = dot(query, target) * query_norm * norm;
                insert(scores, indices, score, index);
            }
        }
    }
}

/// Inserts a candidate into a sorted list if it belongs there. Of equal scores, the one that came first stays first.
fn insert(scores: &mut [f32], indices: &mut [u32], score: f32, index: u32) {
    let last = scores.len() - 1;
    if score <= scores[last] || score.is_nan() {
        return;
    }
    let place = scores.partition_point(|before| *before >= score);
    scores.copy_within(place..last, place + 1);
    indices.copy_within(place..last, place + 1);
    (scores[place], indices[place]) = (score, index);
}

/// The `k` targets with the highest cosine for each query: the CPU reference of [`CosineTopK`](super::CosineTopK), on one
/// thread.
///
/// The shapes are `queries [Q, dim]`, `targets [N, dim]`, `scores [Q, k]` and `indices [Q, k]`, row-major. The highest cosine
/// comes first; for equal cosines the lower index comes first.
///
/// # Panics
/// If the shapes do not fit: a length is not a multiple of `dim`, `k` is 0 or more than the number of targets, or an output
/// does not have Q × `k` elements.
///
/// # Examples
/// ```
/// let (mut scores, mut indices) = ([0.0; 2], [0; 2]);
/// um_kernels::cosine_top_k_cpu(&[3.0, 4.0], &[1.0, 0.0, 0.0, 1.0], 2, 2, &mut scores, &mut indices);
/// assert_eq!(indices, [1, 0]);
/// assert!((scores[0] - 0.8).abs() < 1e-6 && (scores[1] - 0.6).abs() < 1e-6);
/// ```
pub fn cosine_top_k_cpu(
    queries: &[f32],
    targets: &[f32],
    dim: usize,
    k: usize,
    scores: &mut [f32],
    indices: &mut [u32],
) {
    assert!(
        dim > 0 && queries.len().is_multiple_of(dim) && targets.len().is_multiple_of(dim),
        "rows of {dim} elements"
    );
    let (query_count, target_count) = (queries.len() / dim, targets.len() / dim);
    assert!(
        (1..=target_count).contains(&k),
        "k is {k}; there are {target_count} targets"
    );
    assert!(
        scores.len() == query_count * k && indices.len() == scores.len(),
        "the outputs hold {query_count} rows of {k}"
    );
    let [query_scales, target_scales] =
        [queries, targets].map(|rows| rows.chunks(dim).map(row_scale).collect::<Vec<_>>());
    let rows = |elements, scales| Rows {
        elements,
        scales,
        dim,
    };
    best_of(
        rows(queries, &query_scales),
        rows(targets, &target_scales),
        k,
        scores,
        indices,
    );
}
