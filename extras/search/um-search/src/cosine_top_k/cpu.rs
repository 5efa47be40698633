//! The CPU reference: the same lists as the kernels, up to rounding. The crate `matrixmultiply` computes the matrix product
//! tile by tile, so that the whole score matrix is never in memory.

use half::{bf16, f16};
use rayon::prelude::*;
use std::ops::Range;

/// Targets in a tile: the scores of a group of queries against them fit into the second-level cache.
const TILE: usize = 512;
/// Queries of one task.
const GROUP: usize = 128;
/// Marks a place in a list without a target.
pub(crate) const NONE: u32 = u32::MAX;

/// An element of a vector: `f32`, or `f16` or `bf16`, which are widened.
pub trait Scalar: bytemuck::Pod + Send + Sync {
    /// The vector's elements as `f32`; `room` holds them if they must be converted.
    fn widen<'a>(elements: &'a [Self], room: &'a mut Vec<f32>) -> &'a [f32];
}

impl Scalar for f32 {
    fn widen<'a>(elements: &'a [f32], _room: &'a mut Vec<f32>) -> &'a [f32] {
        elements
    }
}

macro_rules! widened {
    ($half:ty) => {
        impl Scalar for $half {
            fn widen<'a>(elements: &'a [$half], room: &'a mut Vec<f32>) -> &'a [f32] {
                use half::slice::HalfFloatSliceExt;
                room.resize(elements.len(), 0.0);
                room.par_chunks_mut(1 << 14)
                    .zip(elements.par_chunks(1 << 14))
                    .for_each(|(wide, narrow)| narrow.convert_to_f32_slice(wide));
                room
            }
        }
    };
}
widened!(f16);
widened!(bf16);

/// The vectors to compare: rows of `dim` elements, and their [`row_norms`]. No query is extreme.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<'a, T> {
    pub queries: &'a [f32],
    pub targets: &'a [T],
    pub query_norms: &'a [f32],
    pub target_norms: &'a [f32],
    pub dim: usize,
}

/// For `rows [n, dim]`, row-major, writes 1 / |row| for each row into `norms [n]`, as far as it is in the range of single precision; 0 for a row
/// of zeros, and for all rows if `dim` is 0. If `rows` and `norms` have different numbers of rows, the smaller number counts.
pub fn row_inverse_norms_cpu<T: Scalar>(rows: &[T], dim: usize, norms: &mut [f32]) {
    row_norms(rows, dim, norms);
    for norm in norms {
        *norm = norm.abs() * row_power(*norm);
    }
}

/// Rows with squared norms outside of these limits are extreme: see cuda/rows.cuh.
pub(crate) const LEAST_SQUARES: f32 = f32::from_bits((127 - 80) << 23);
pub(crate) const MOST_SQUARES: f32 = f32::from_bits((127 + 120) << 23);
/// The powers of two for the elements of extreme rows.
const OF_SMALL_ROW: f32 = f32::from_bits((127 + 96) << 23);
const OF_LARGE_ROW: f32 = f32::from_bits((127 - 96) << 23);

/// As [`row_inverse_norms_cpu`], but for extreme rows of the multiplied row, with the sign bit, and with its [`row_power`] in the last bit.
pub(crate) fn row_norms<T: Scalar>(rows: &[T], dim: usize, norms: &mut [f32]) {
    if dim == 0 {
        return norms.fill(0.0);
    }
    let mut room = Vec::new();
    for (rows, norms) in rows
        .chunks(TILE.saturating_mul(dim))
        .zip(norms.chunks_mut(TILE))
    {
        let rows = T::widen(rows, &mut room);
        norms
            .par_iter_mut()
            .zip(rows.par_chunks_exact(dim))
            .for_each(|(norm, row)| *norm = row_norm(row));
    }
}

fn row_norm(row: &[f32]) -> f32 {
    let inverse = |sum: f32| if sum > 0.0 { 1.0 / sum.sqrt() } else { 0.0 };
    let sum = square_sum(row, 1.0);
    if (LEAST_SQUARES..=MOST_SQUARES).contains(&sum) {
        return inverse(sum);
    }
    let is_small = sum < 1.0;
    let power = [OF_LARGE_ROW, OF_SMALL_ROW][usize::from(is_small)];
    let norm = inverse(square_sum(row, power));
    match norm == 0.0 {
        true => norm,
        false => f32::from_bits(norm.to_bits() & !1 | 1 << 31 | u32::from(is_small)),
    }
}

/// The power of two for the elements of a row with this norm of [`row_norms`].
pub(crate) fn row_power(norm: f32) -> f32 {
    match (norm.is_sign_negative(), norm.to_bits() & 1) {
        (false, _) => 1.0,
        (true, 1) => OF_SMALL_ROW,
        (true, _) => OF_LARGE_ROW,
    }
}

/// Rows times their powers of two; `room` holds them if one differs from 1.
pub(crate) fn multiplied<'a>(
    rows: &'a [f32],
    norms: &[f32],
    dim: usize,
    room: &'a mut Vec<f32>,
) -> &'a [f32] {
    if norms.iter().all(|norm| row_power(*norm) == 1.0) {
        return rows;
    }
    let rows = rows.chunks(dim).zip(norms);
    room.clear();
    room.extend(rows.flat_map(|(row, norm)| row.iter().map(|value| value * row_power(*norm))));
    room
}

/// Multiplies each row by a power of two that brings its largest element near 1, as far as that is a normal number.
pub(crate) fn scale_queries(rows: &mut [f32], dim: usize) {
    for row in rows.chunks_mut(dim) {
        let largest = row
            .iter()
            .fold(0.0f32, |largest, value| largest.max(value.abs()));
        // 2^-e for a largest element of 2^e to 2^(e+1).
        let exponent = (254 - (largest.to_bits() >> 23) as i32).clamp(1, 254) as u32;
        let power = f32::from_bits(exponent << 23);
        row.iter_mut().for_each(|value| *value *= power);
    }
}

/// The sum of the squares of a row times `power`. Eight sums at the same time, as a vector unit adds, and therefore with an eighth of the rounding
/// error of one sum.
pub(crate) fn square_sum(row: &[f32], power: f32) -> f32 {
    let mut sums = [0.0f32; 8];
    let square = |value: &f32| (value * power) * (value * power);
    let chunks = row.chunks_exact(8);
    let rest: f32 = chunks.remainder().iter().map(square).sum();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += square(value);
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// A function that computes products of rows. Arguments: queries, targets, elements of a row, and the result, row by row of the
/// queries.
pub(crate) type Multiply = fn(&[f32], &[f32], usize, &mut Vec<f32>);

/// The best `k` of the targets in `range` for each query, written to rows of `k` that begin `stride` apart in `scores` and
/// `indices`.
pub(crate) fn best_of<T: Scalar>(
    multiply: Multiply,
    vectors: Vectors<'_, T>,
    k: usize,
    range: Range<usize>,
    stride: usize,
    scores: &mut [f32],
    indices: &mut [u32],
) {
    let dim = vectors.dim;
    let mut lists: Vec<(&mut [f32], &mut [u32])> = scores
        .chunks_mut(stride)
        .zip(indices.chunks_mut(stride))
        .map(|(scores, indices)| (&mut scores[..k], &mut indices[..k]))
        .collect();
    for (scores, indices) in &mut lists {
        scores.fill(f32::NEG_INFINITY);
        indices.fill(NONE);
    }
    let (mut room, mut multiplied_room) = (Vec::new(), Vec::new());
    let mut first = range.start;
    while first < range.end {
        let end = (first + TILE).min(range.end);
        let tile = T::widen(&vectors.targets[first * dim..end * dim], &mut room);
        let norms = &vectors.target_norms[first..end];
        let tile = multiplied(tile, norms, dim, &mut multiplied_room);
        vectors
            .queries
            .par_chunks(GROUP * dim)
            .zip(lists.par_chunks_mut(GROUP))
            .zip(vectors.query_norms.par_chunks(GROUP))
            .for_each_init(Vec::new, |products, ((queries, lists), query_norms)| {
                multiply(queries, tile, dim, products);
                for ((row, (scores, indices)), query_norm) in products
                    .chunks_exact(norms.len())
                    .zip(lists)
                    .zip(query_norms)
                {
                    select(row, norms, *query_norm, first as u32, scores, indices);
                }
            });
        first = end;
    }
}

/// `products` = queries × tileᵀ, row by row of the queries.
#[allow(unsafe_code, reason = "matrixmultiply takes pointers")]
pub(crate) fn multiply(queries: &[f32], tile: &[f32], dim: usize, products: &mut Vec<f32>) {
    let (rows, columns) = (queries.len() / dim, tile.len() / dim);
    products.resize(rows * columns, 0.0);
    // SAFETY: the three matrices have the sizes of their slices: `products` is rows × columns, row-major, `queries` rows × dim,
    // row-major, and the transposed tile dim × columns, column-major. `products` does not overlap the others, and is not read.
    unsafe {
        matrixmultiply::sgemm(
            rows,
            dim,
            columns,
            1.0,
            queries.as_ptr(),
            dim as isize,
            1,
            tile.as_ptr(),
            1,
            dim as isize,
            0.0,
            products.as_mut_ptr(),
            columns as isize,
            1,
        );
    }
}

/// Inserts a row of products into a query's sorted list.
fn select(
    products: &[f32],
    norms: &[f32],
    query_norm: f32,
    first: u32,
    scores: &mut [f32],
    indices: &mut [u32],
) {
    for (offset, (product, norm)) in products.iter().zip(norms).enumerate() {
        insert(
            scores,
            indices,
            product * query_norm * norm.abs(),
            first + offset as u32,
        );
    }
}

/// Inserts a candidate into a sorted list if it belongs there. Candidates come with ascending indices: an equal score stays
/// behind.
#[inline]
pub(crate) fn insert(scores: &mut [f32], indices: &mut [u32], score: f32, index: u32) {
    let last = scores.len() - 1;
    if score <= scores[last] || score.is_nan() {
        return;
    }
    let mut place = last;
    while place > 0 && score > scores[place - 1] {
        scores[place] = scores[place - 1];
        indices[place] = indices[place - 1];
        place -= 1;
    }
    scores[place] = score;
    indices[place] = index;
}

/// The `k` targets with the highest cosine for each query. This is the CPU reference of [`CosineTopK`](super::CosineTopK).
///
/// The shapes are `queries [Q, dim]`, `targets [N, dim]`, `scores [Q, k]` and `indices [Q, k]`, row-major. The highest cosine
/// comes first; for equal cosines the lower index comes first. It runs on all threads of rayon's pool, and is done when it
/// returns.
///
/// # Panics
/// If the shapes do not fit: a length is not a multiple of `dim`, `k` is 0 or more than the number of targets, or an output
/// does not have Q × `k` elements.
///
/// # Examples
/// ```
/// let (mut scores, mut indices) = ([0.0; 2], [0; 2]);
/// um_search::cosine_top_k_cpu(&[3.0, 4.0], &[1.0f32, 0.0, 0.0, 1.0], 2, 2, &mut scores, &mut indices);
/// assert_eq!(indices, [1, 0]);
/// assert!((scores[0] - 0.8).abs() < 1e-6 && (scores[1] - 0.6).abs() < 1e-6);
/// ```
pub fn cosine_top_k_cpu<T: Scalar>(
    queries: &[f32],
    targets: &[T],
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
    let (mut query_norms, mut target_norms) = (vec![0.0; query_count], vec![0.0; target_count]);
    let mut queries = queries.to_vec();
    scale_queries(&mut queries, dim);
    row_norms(&queries, dim, &mut query_norms);
    row_norms(targets, dim, &mut target_norms);
    let vectors = Vectors {
        queries: &queries,
        targets,
        query_norms: &query_norms,
        target_norms: &target_norms,
        dim,
    };
    best_of(multiply, vectors, k, 0..target_count, k, scores, indices);
}
