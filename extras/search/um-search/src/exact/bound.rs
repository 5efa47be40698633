//! The largest difference between the filter's scores and the exact scores: the arithmetic of exact-search.md, for the
//! host's part of a search on the device, and for the search on a CPU.

use super::tiles::Format;
use crate::metric::Metric;

/// Longest row for which the filter is used: the bound grows with the length.
pub(crate) const LONGEST_ROW: usize = 1 << 16;

/// Unit roundoff of single precision.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// The constants of the bound for rows of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    /// Rounding of both sums, of the tensor cores and of the exact score, relative to the product of the rows' sizes.
    pub kappa: f32,
    /// The effect of underflow.
    pub tiny: f32,
    /// Factor that makes a computed norm at least as large as the real norm.
    pub grow: f32,
}

/// Bounds of a row y, scaled by its inverse norm, and of y′, the row in the tiles: `size` ≥ ‖y‖ and ‖y′‖, `error` ≥ ‖y − y′‖.
/// The error of a special row is infinite. In memory they are the two numbers of the kernels' `float2`.
pub(crate) type RowBound = [f32; 2];

impl Bound {
    pub(crate) fn new(dim: usize, metric: Metric, format: Format) -> Self {
        let padded = dim.next_multiple_of(format.tile_elements()) as f64;
        let rounded = |operations: f64| operations * UNIT / (1.0 - operations * UNIT);
        let filter = match format {
            // This is twice the largest error of the tensor cores' sums.
            Format::Bf16 | Format::F16 => 2.0 * tensor_cores(padded),
            // Sums of integers are exact; their conversion and the two scales round once each.
            Format::Int8 => rounded(3.0),
        };
        let exact = rounded(padded + 2.0);
        let underflow: f64 = match metric {
            Metric::Cosine => 2f64.powi(-68),
            Metric::InnerProduct => 2f64.powi(-120),
        };
        Self {
            kappa: up(filter + exact),
            tiny: up(padded * underflow),
            grow: up(1.0 + (dim as f64 + 16.0) * UNIT),
        }
    }
}

/// The largest error of tensor cores' sums of products of 16-bit numbers, relative to the sum of the products' sizes: they add
/// blocks of at least four products to the accumulator, aligned to the largest and truncated at 2^-23 of it, which is at most 1.5
/// times 2^-23 for each product.
pub(crate) fn tensor_cores(products: f64) -> f64 {
    1.5 * products * 2.0 * UNIT
}

/// A single-precision number that is at least `value`, even if `value` was rounded down.
fn up(value: f64) -> f32 {
    let value = if value == 0.0 || value.is_infinite() {
        value
    } else {
        value.next_up()
    };
    let near = value as f32;
    if f64::from(near) < value {
        near.next_up()
    } else {
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_at_768_are_those_of_the_document() {
        let bound = Bound::new(768, Metric::Cosine, Format::F16);
        assert!((bound.kappa - 3.206e-4).abs() < 1e-7, "{}", bound.kappa);
        assert!(bound.tiny < 1e-17 && bound.grow < 1.0001);
        let bound = Bound::new(768, Metric::Cosine, Format::Int8);
        assert!((bound.kappa - 4.607e-5).abs() < 1e-8, "{}", bound.kappa);
    }

    /// `grow` covers a sum of squares that is too small by γ of d + 8 operations, and one more rounding, for rows of every length; it is no
    /// larger than the document says.
    #[test]
    fn the_factor_of_norms_covers_their_rounding_at_every_length() {
        for format in [Format::Bf16, Format::F16, Format::Int8] {
            for dim in 1..=LONGEST_ROW {
                let grow = f64::from(Bound::new(dim, Metric::Cosine, format).grow);
                let operations = (dim as f64 + 8.0) * UNIT;
                let gamma = operations / (1.0 - operations);
                let needed = (1.0 + UNIT) / (1.0 - gamma).sqrt();
                let documented = 1.0 + (dim as f64 + 16.0) * UNIT;
                assert!(grow >= needed, "{dim}: {grow} < {needed}");
                assert!(
                    (documented..=documented + 4.0 * UNIT).contains(&grow),
                    "{dim}: {grow}"
                );
            }
        }
    }
}
