//! Conversion of rows to the filter's form.

use crate::cosine_top_k::cpu::{Scalar, row_norms, square_sum};
use crate::exact::bound::{Bound, RowBound, is_special};
use crate::exact::tiles::{BLOCK, Format, LEAST_SCALE, place, room, scale_for};
use crate::metric::Metric;
use crate::reference::{Outcome, number, size};
use cuda_um_sim::LaunchContext;

/// A row in the tiles.
struct Line<'a> {
    tiles: &'a mut [u16],
    row: usize,
    blocks: usize,
    format: Format,
}

impl Line<'_> {
    fn at(&self, element: usize) -> usize {
        place(self.row, element, self.blocks, self.format)
    }

    fn fill_zeros(&mut self) {
        for element in 0..self.blocks * self.format.tile_elements() {
            let at = self.at(element);
            match self.format {
                Format::Bf16 | Format::F16 => self.tiles[at] = 0,
                Format::Int8 => bytemuck::cast_slice_mut::<_, i8>(self.tiles)[at] = 0,
            }
        }
    }

    /// Stores an element, and returns the value that it stands for.
    fn store(&mut self, element: usize, value: f32, scale: f32) -> f32 {
        let at = self.at(element);
        match self.format {
            Format::Bf16 | Format::F16 => {
                let bits = self.format.narrow(value);
                self.tiles[at] = bits;
                self.format.widen(bits)
            }
            Format::Int8 => {
                let number = (value * (1.0 / scale))
                    .round_ties_even()
                    .clamp(-127.0, 127.0);
                bytemuck::cast_slice_mut(self.tiles)[at] = number as i8;
                number * scale
            }
        }
    }
}

pub(super) fn prepare<T: Scalar>(launch: &mut LaunchContext<'_>, format: Format) -> Outcome {
    let (first, count, end, dim) = (
        size(launch, 6)?,
        size(launch, 7)?,
        size(launch, 8)?,
        size(launch, 9)?,
    );
    let metric = match launch.value::<u32>(11)? {
        0 => Metric::InnerProduct,
        _ => Metric::Cosine,
    };
    let bound = Bound {
        grow: launch.value(10)?,
        ..Bound::new(dim, metric, format)
    };
    let existing = end.saturating_sub(first).min(count);
    let mut wide = Vec::new();
    let rows = T::widen(launch.slice::<T>(0, existing * dim)?, &mut wide);
    let norms = &mut launch.slice_mut::<f32>(1, first + existing)?[first..];
    let tiles = launch.slice_mut::<u16>(2, room(first + count, dim, format))?;
    let scales = match format {
        Format::Bf16 | Format::F16 => &mut [][..],
        Format::Int8 => &mut launch.slice_mut::<f32>(3, first + count)?[first..],
    };
    let bounds = &mut launch.slice_mut::<RowBound>(4, first + count)?[first..];
    launch.slice_mut::<u32>(5, 1)?[0] = 0;
    match metric {
        Metric::Cosine => row_norms(rows, dim, norms),
        Metric::InnerProduct => norms.fill(1.0),
    }
    scales.fill(LEAST_SCALE);
    for at in 0..count {
        let mut line = Line {
            tiles: &mut *tiles,
            row: first + at,
            blocks: dim.div_ceil(format.tile_elements()),
            format,
        };
        line.fill_zeros();
        bounds[at] = [0.0, f32::INFINITY];
        if at >= existing {
            continue;
        }
        let (row, norm) = (&rows[at * dim..][..dim], norms[at]);
        let squares = square_sum(row, 1.0);
        let zero = row.iter().all(|value| *value == 0.0);
        if !zero && is_special(squares, metric) {
            continue;
        }
        let most = row.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let scale = scale_for(most * norm);
        if let Some(of_row) = scales.get_mut(at) {
            *of_row = scale;
        }
        let mut errors = 0.0f32;
        for (element, value) in row.iter().enumerate() {
            let kept = line.store(element, value * norm, scale);
            // This is exact, and therefore equal to one fused multiply-add except for the last rounding. `grow` covers the
            // difference.
            let error = (f64::from(*value) * f64::from(norm) - f64::from(kept)) as f32;
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
