//! Products of rows in the kernels' order of operations, bit for bit: a sequence of fused multiply-adds.

use rayon::prelude::*;

/// Targets that are multiplied at the same time.
const PANEL: usize = 16;
/// Queries that are multiplied at the same time.
const LINES: usize = 4;
/// Queries of a task.
const GROUP: usize = 64;

/// `products` = queries × targetsᵀ, row by row of the queries, with the same result as `cosine_top_k_partial`.
pub(crate) fn products(queries: &[f32], targets: &[f32], dim: usize, products: &mut Vec<f32>) {
    let columns = targets.len() / dim;
    products.clear();
    products.resize(queries.len() / dim * columns, 0.0);
    if products.is_empty() {
        return;
    }
    let panels = pack(targets, dim);
    // The kernel pads rows with zeros, which changes -0 to 0.
    let end = |sum: f32| {
        if dim.is_multiple_of(16) {
            sum
        } else {
            sum + 0.0
        }
    };
    let tasks = queries
        .par_chunks(GROUP * dim)
        .zip(products.par_chunks_mut(GROUP * columns));
    tasks.for_each(|(queries, products)| {
        for (panel, first) in panels.chunks(PANEL * dim).zip((0..).step_by(PANEL)) {
            let width = PANEL.min(columns - first);
            for (lines, rows) in queries
                .chunks(LINES * dim)
                .zip(products.chunks_mut(LINES * columns))
            {
                // If there are fewer lines, the last one is repeated.
                let count = lines.len() / dim;
                let line = |i: usize| &lines[i.min(count - 1) * dim..][..dim];
                let sums = multiply([line(0), line(1), line(2), line(3)], panel);
                for (row, sums) in rows.chunks_mut(columns).zip(sums) {
                    for (product, sum) in row[first..first + width].iter_mut().zip(sums) {
                        *product = end(sum);
                    }
                }
            }
        }
    });
}

/// Panels of 16 targets, element by element.
fn pack(targets: &[f32], dim: usize) -> Vec<f32> {
    let mut panels = vec![0.0; (targets.len() / dim).next_multiple_of(PANEL) * dim];
    for (rows, panel) in targets
        .chunks(PANEL * dim)
        .zip(panels.chunks_mut(PANEL * dim))
    {
        for (lane, row) in rows.chunks_exact(dim).enumerate() {
            for (value, line) in row.iter().zip(panel.chunks_exact_mut(PANEL)) {
                line[lane] = *value;
            }
        }
    }
    panels
}

type Sums = [[f32; PANEL]; LINES];

#[allow(unsafe_code, reason = "calls a function for this processor")]
fn multiply(lines: [&[f32]; LINES], panel: &[f32]) -> Sums {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor supports both.
        return unsafe { multiply_avx2(lines, panel) };
    }
    multiply_anywhere(lines, panel)
}

fn multiply_anywhere(lines: [&[f32]; LINES], panel: &[f32]) -> Sums {
    let mut sums = [[0.0f32; PANEL]; LINES];
    for (i, targets) in panel.chunks_exact(PANEL).enumerate() {
        for (sums, line) in sums.iter_mut().zip(lines) {
            for (sum, target) in sums.iter_mut().zip(targets) {
                *sum = line[i].mul_add(*target, *sum);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(lines: [&[f32]; LINES], panel: &[f32]) -> Sums {
    use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_set1_ps, _mm256_setzero_ps};
    let mut sums: [[__m256; 2]; LINES] = [[_mm256_setzero_ps(); 2]; LINES];
    let [a, b, c, d] = lines;
    let elements = a.iter().zip(b).zip(c.iter().zip(d));
    for (targets, ((a, b), (c, d))) in panel.chunks_exact(PANEL).zip(elements) {
        let targets: [__m256; 2] = bytemuck::pod_read_unaligned(bytemuck::cast_slice(targets));
        for (sums, query) in sums.iter_mut().zip([a, b, c, d]) {
            let query = _mm256_set1_ps(*query);
            sums[0] = _mm256_fmadd_ps(query, targets[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(query, targets[1], sums[1]);
        }
    }
    bytemuck::cast(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn any_shape_has_the_bits_of_one_chain() {
        for (rows, columns, dim) in [(1, 1, 1), (3, 17, 5), (70, 33, 48), (5, 16, 100)] {
            let (queries, targets) = (numbers(1, rows * dim), numbers(2, columns * dim));
            let mut found = Vec::new();
            products(&queries, &targets, dim, &mut found);
            for (row, query) in queries.chunks(dim).enumerate() {
                for (column, target) in targets.chunks(dim).enumerate() {
                    let chain = query
                        .iter()
                        .zip(target)
                        .fold(0.0f32, |sum, (q, t)| q.mul_add(*t, sum));
                    assert_eq!(found[row * columns + column].to_bits(), chain.to_bits());
                }
            }
        }
    }

    #[test]
    fn the_processors_own_instructions_have_the_same_bits() {
        let (queries, targets) = (numbers(3, 4 * 50), numbers(4, 16 * 50));
        let panel = pack(&targets, 50);
        let lines: Vec<&[f32]> = queries.chunks(50).collect();
        let lines = [lines[0], lines[1], lines[2], lines[3]];
        assert_eq!(multiply(lines, &panel), multiply_anywhere(lines, &panel));
    }
}
