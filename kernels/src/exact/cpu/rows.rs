//! Rows as 8-bit integers with a scale each, and the bounds on their errors.

use super::products::{LINES, Line, PANEL, STEP};
use crate::cosine_top_k::cpu::{Scalar, inverse_norm};
use crate::exact::bound::{Bound, RowBound, is_special};
use crate::exact::tiles::{LEAST_SCALE, scale_for};
use crate::metric::Metric;
use rayon::prelude::*;
use std::ops::Range;

/// Elements that are converted at a time; rows are padded with zeros to a multiple of it.
const PART: usize = 16;
/// A number in single precision, plus this, has its nearest integer in its last bits.
const ROUND: f32 = 1.5 * (1 << 23) as f32;

/// Numbers of a row, each of [`STEP`] elements.
pub(super) fn steps(dim: usize) -> usize {
    dim.next_multiple_of(PART) / STEP
}

/// Targets in panels.
#[derive(Debug)]
pub(super) struct NarrowTargets {
    panels: Vec<Line>,
    steps: usize,
    pub scales: Vec<f32>,
    pub bounds: Vec<RowBound>,
}

impl NarrowTargets {
    /// The panels that hold a range, which begins with a panel, and the number of their targets.
    pub fn panels_of(&self, targets: Range<usize>) -> (&[Line], usize) {
        let panels = targets.start / PANEL..targets.end.div_ceil(PANEL);
        let lines = LINES * self.steps;
        let columns = panels.len() * PANEL;
        (
            &self.panels[panels.start * lines..panels.end * lines],
            columns,
        )
    }
}

/// Inverse norms of the targets, and the targets in 8 bits.
pub(super) fn narrow_targets<T: Scalar>(
    rows: &[T],
    dim: usize,
    bound: Bound,
) -> (Vec<f32>, NarrowTargets) {
    let (count, steps) = (rows.len() / dim, steps(dim));
    let padded = count.next_multiple_of(PANEL);
    let mut norms = vec![0.0; count];
    let mut narrow = NarrowTargets {
        panels: vec![Line([0; 16]); padded / PANEL * LINES * steps],
        steps,
        scales: vec![LEAST_SCALE; padded],
        bounds: vec![[0.0; 2]; padded],
    };
    rows.par_chunks(PANEL * dim)
        .zip(norms.par_chunks_mut(PANEL))
        .zip(narrow.panels.par_chunks_mut(LINES * steps))
        .zip(narrow.scales.par_chunks_mut(PANEL))
        .zip(narrow.bounds.par_chunks_mut(PANEL))
        .for_each_init(
            || (Vec::new(), vec![0; steps]),
            |(wide, words), ((((rows, norms), lines), scales), bounds)| {
                let rows = T::widen(rows, wide).chunks_exact(dim);
                for (lane, (row, norm)) in rows.zip(norms).enumerate() {
                    *norm = inverse_norm(row);
                    (scales[lane], bounds[lane]) = narrow_row(row, *norm, bound, words);
                    for (word, lines) in words.iter().zip(lines.chunks_exact_mut(LINES)) {
                        lines[lane / 16].0[lane % 16] = *word as u32 ^ 0x8080_8080;
                    }
                }
            },
        );
    (norms, narrow)
}

/// Writes a row times its inverse norm in 8 bits, and returns its scale and the bound on its error. The integers of a special
/// row are 0.
#[allow(unsafe_code, reason = "calls a function for this processor")]
pub(super) fn narrow_row(
    row: &[f32],
    norm: f32,
    bound: Bound,
    words: &mut [i32],
) -> (f32, RowBound) {
    let bytes = bytemuck::cast_slice_mut(words);
    #[cfg(target_arch = "x86_64")]
    let sums = if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor supports both.
        unsafe { convert_avx2(row, norm, bytes) }
    } else {
        convert(row, norm, bytes)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let sums = convert(row, norm, bytes);
    let zero = sums.most == 0.0 && sums.squares == 0.0;
    if !zero && is_special(sums.squares, Metric::Cosine) {
        words.fill(0);
        return (LEAST_SCALE, [0.0, f32::INFINITY]);
    }
    (sums.scale, bound.row(norm, sums.squares, sums.errors))
}

/// The largest element of a row, its scale, and sums of squares of the elements and of their errors.
struct Sums {
    most: f32,
    scale: f32,
    squares: f32,
    errors: f32,
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn convert_avx2(row: &[f32], norm: f32, bytes: &mut [i8]) -> Sums {
    convert(row, norm, bytes)
}

#[inline(always)]
fn convert(row: &[f32], norm: f32, bytes: &mut [i8]) -> Sums {
    let (parts, rest) = row.as_chunks::<PART>();
    let mut last = [0.0; PART];
    last[..rest.len()].copy_from_slice(rest);
    let parts = || parts.iter().chain((!rest.is_empty()).then_some(&last));
    let (mut most, mut squares) = ([0.0f32; PART], [0.0f32; PART]);
    parts().for_each(|part| {
        for ((most, sum), value) in most.iter_mut().zip(&mut squares).zip(part) {
            *most = most.max(value.abs());
            *sum += value * value;
        }
    });
    let most = most.into_iter().fold(0.0, f32::max);
    let scale = scale_for(most * norm);
    let (inverse, mut errors) = (1.0 / scale, [0.0f32; PART]);
    parts()
        .zip(bytes.as_chunks_mut::<PART>().0)
        .for_each(|(part, bytes)| {
            for ((value, byte), sum) in part.iter().zip(bytes).zip(&mut errors) {
                let rounded = (value * norm * inverse).clamp(-127.0, 127.0) + ROUND;
                *byte = rounded.to_bits() as i8;
                let error = value.mul_add(norm, -((rounded - ROUND) * scale));
                *sum += error * error;
            }
        });
    Sums {
        most,
        scale,
        squares: squares.iter().sum(),
        errors: errors.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::tiles::Format;

    #[test]
    fn the_bound_is_not_below_the_error() {
        for dim in [1, 15, 16, 100, 768] {
            let bound = Bound::new(dim, Metric::Cosine, Format::Int8);
            for seed in 1..20u32 {
                let row: Vec<f32> = (0..dim as u32)
                    .map(|i| {
                        (i.wrapping_mul(seed.wrapping_mul(2_654_435_761)) >> 8) as f32 / 1e6 - 8.0
                    })
                    .collect();
                let (norm, mut words) = (inverse_norm(&row), vec![-1; steps(dim)]);
                let (scale, [size, error]) = narrow_row(&row, norm, bound, &mut words);
                let bytes: &[i8] = bytemuck::cast_slice(&words);
                assert!(bytes[dim..].iter().all(|byte| *byte == 0));
                let y = || row.iter().map(|value| f64::from(*value) * f64::from(norm));
                let errors = y().zip(bytes);
                let errors = errors.map(|(y, byte)| y - f64::from(*byte) * f64::from(scale));
                let real = errors.map(|error| error * error).sum::<f64>().sqrt();
                assert!(real <= f64::from(error) && f64::from(error) < real * 1.001 + 1e-9);
                assert!(y().map(|y| y * y).sum::<f64>().sqrt() <= f64::from(size));
            }
        }
    }

    #[test]
    fn special_rows_have_no_bound() {
        let bound = Bound::new(3, Metric::Cosine, Format::Int8);
        let mut words = vec![5; steps(3)];
        for row in [
            [1.0, f32::NAN, 0.0],
            [f32::NAN; 3],
            [f32::INFINITY, 0.0, 1.0],
            [1e30; 3],
            [1e-30; 3],
        ] {
            let (_, [_, error]) = narrow_row(&row, inverse_norm(&row), bound, &mut words);
            assert!(error == f32::INFINITY && words.iter().all(|word| *word == 0));
        }
        assert!(narrow_row(&[0.0; 3], 0.0, bound, &mut words).1[1] < 1e-9);
    }
}
