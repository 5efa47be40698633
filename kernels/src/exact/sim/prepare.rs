//! Conversion of rows to the filter's form.

use crate::cosine_top_k::cpu::{Scalar, row_inverse_norms_cpu, square_sum};
use crate::exact::bound::{Bound, RowBound, TILE_K, is_special};
use crate::exact::tiles::{BLOCK, Format, place, room};
use crate::metric::Metric;
use crate::reference::{Outcome, number, size};
use cuda_um_sim::LaunchContext;

pub(super) fn prepare<T: Scalar>(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (first, count, end, dim) = (
        size(launch, 5)?,
        size(launch, 6)?,
        size(launch, 7)?,
        size(launch, 8)?,
    );
    let metric = match launch.value::<u32>(10)? {
        0 => Metric::InnerProduct,
        _ => Metric::Cosine,
    };
    let bound = Bound {
        grow: launch.value(9)?,
        ..Bound::new(dim, metric)
    };
    let existing = end.saturating_sub(first).min(count);
    let mut wide = Vec::new();
    let rows = T::widen(launch.slice::<T>(0, existing * dim)?, &mut wide);
    let norms = &mut launch.slice_mut::<f32>(1, first + existing)?[first..];
    let tiles = launch.slice_mut::<u16>(2, room(first + count, dim))?;
    let bounds = &mut launch.slice_mut::<RowBound>(3, first + count)?[first..];
    launch.slice_mut::<u32>(4, 1)?[0] = 0;
    match metric {
        Metric::Cosine => row_inverse_norms_cpu(rows, dim, norms),
        Metric::InnerProduct => norms.fill(1.0),
    }
    let blocks = dim.div_ceil(TILE_K);
    for at in 0..count {
        for element in 0..blocks * TILE_K {
            tiles[place(first + at, element, blocks)] = 0;
        }
        bounds[at] = [0.0, f32::INFINITY];
        if at >= existing {
            continue;
        }
        let (row, norm) = (&rows[at * dim..][..dim], norms[at]);
        let squares = square_sum(row);
        let zero = row.iter().all(|value| *value == 0.0);
        if !zero && is_special(squares, metric) {
            continue;
        }
        let mut errors = 0.0f32;
        for (element, value) in row.iter().enumerate() {
            let bits = format.narrow(value * norm);
            tiles[place(first + at, element, blocks)] = bits;
            // This is exact, and therefore equal to one fused multiply-add except for the last rounding. `grow` covers the
            // difference.
            let error =
                (f64::from(*value) * f64::from(norm) - f64::from(format.widen(bits))) as f32;
            errors += error * error;
        }
        bounds[at] = bound.row(norm, squares, errors);
    }
    Ok(())
}

pub(super) fn tile_bounds(launch: &mut LaunchContext<'_>) -> Outcome {
    let (most, tiles, rows) = (number(launch, 3)?, number(launch, 4)?, number(launch, 5)?);
    let bounds = launch.slice::<RowBound>(0, tiles * BLOCK)?;
    let largest = launch.slice_mut::<RowBound>(1, tiles)?;
    let specials = launch.slice_mut::<u32>(2, 1 + most)?;
    for (tile, (largest, bounds)) in largest.iter_mut().zip(bounds.chunks(BLOCK)).enumerate() {
        *largest = [0.0; 2];
        for (i, bound) in bounds.iter().enumerate() {
            let row = tile * BLOCK + i;
            if bound[1] < f32::INFINITY {
                *largest = [largest[0].max(bound[0]), largest[1].max(bound[1])];
            } else if row < rows {
                let at = specials[0] as usize;
                specials[0] += 1;
                if at < most {
                    specials[1 + at] = row as u32;
                }
            }
        }
    }
    Ok(())
}
