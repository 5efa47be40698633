//! Checks vectors: finite, not zero, of one length. It also scales them so that f32 sums stay in range.

use crate::error::Wrong;
use crate::npy::{Matrix, Values};

/// Refuses NaN, infinities and zero vectors; scales rows of extreme length to near 1.
///
/// The cosine does not depend on the length of a vector, but f32 sums of squares do. A row with a length outside of 1e-15 …
/// 1e15 is multiplied by a power of two, which does not change a cosine (f16 cannot have such lengths).
///
/// # Errors
/// The first invalid row.
pub fn check_rows(matrix: &mut Matrix) -> Result<(), Wrong> {
    let columns = matrix.columns;
    match &mut matrix.values {
        Values::F32(values) => {
            for (row, vector) in values.chunks_exact_mut(columns).enumerate() {
                let squares = sum_of_squares(row, vector.iter().copied())?;
                rescale(vector, squares.sqrt());
            }
        }
        Values::F16(values) => {
            for (row, vector) in values.chunks_exact(columns).enumerate() {
                sum_of_squares(row, vector.iter().map(|value| value.to_f32()))?;
            }
        }
    }
    Ok(())
}

fn sum_of_squares(row: usize, vector: impl Iterator<Item = f32>) -> Result<f64, Wrong> {
    let mut squares = 0.0;
    for (column, value) in vector.enumerate() {
        if !value.is_finite() {
            return Err(Wrong::NotFinite { row, column, value });
        }
        squares += f64::from(value) * f64::from(value);
    }
    if squares == 0.0 {
        return Err(Wrong::ZeroVector { row });
    }
    Ok(squares)
}

fn rescale(vector: &mut [f32], norm: f64) {
    if (1e-15..1e15).contains(&norm) {
        return;
    }
    // In f64, because 2^-n of a subnormal vector does not fit into f32.
    let factor = (-norm.log2().round()).exp2();
    for value in vector {
        *value = (f64::from(*value) * factor) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    fn f32s(columns: usize, values: &[f32]) -> Matrix {
        Matrix {
            rows: values.len() / columns,
            columns,
            values: Values::F32(values.to_vec()),
        }
    }

    #[test]
    fn names_the_row_and_column_of_what_is_not_finite() {
        let wrong = check_rows(&mut f32s(2, &[1.0, 2.0, 3.0, f32::NAN])).unwrap_err();
        assert!(matches!(wrong, Wrong::NotFinite { row: 1, column: 1, value } if value.is_nan()));
        let halves = [1.0, f32::NEG_INFINITY].map(f16::from_f32).to_vec();
        let wrong = check_rows(&mut Matrix {
            rows: 1,
            columns: 2,
            values: Values::F16(halves),
        })
        .unwrap_err();
        assert!(
            matches!(wrong, Wrong::NotFinite { row: 0, column: 1, value } if value == f32::NEG_INFINITY)
        );
    }

    #[test]
    fn names_the_row_that_is_zero() {
        let wrong = check_rows(&mut f32s(2, &[1.0, 2.0, 0.0, -0.0])).unwrap_err();
        assert!(matches!(wrong, Wrong::ZeroVector { row: 1 }));
        let halves = vec![f16::ZERO; 3];
        let wrong = check_rows(&mut Matrix {
            rows: 1,
            columns: 3,
            values: Values::F16(halves),
        })
        .unwrap_err();
        assert!(matches!(wrong, Wrong::ZeroVector { row: 0 }));
    }

    #[test]
    fn ordinary_rows_stay_as_they_are() {
        let mut matrix = f32s(2, &[1.0, 2.0, -3e-10, 0.0, 1e12, 5.0]);
        let before = matrix.clone();
        check_rows(&mut matrix).unwrap();
        assert_eq!(matrix, before);
    }

    #[test]
    fn extreme_rows_come_near_length_one_without_turning() {
        let mut matrix = f32s(2, &[3e38, -1.5e38, 3e-42, 1.5e-42]);
        check_rows(&mut matrix).unwrap();
        let values = matrix.into_f32();
        for vector in values.chunks_exact(2) {
            let norm = vector[0].hypot(vector[1]);
            assert!((0.5..2.0).contains(&norm), "{norm}");
        }
        assert_eq!(values[0] / values[1], -2.0);
        assert!((values[2] / values[3] - 2.0).abs() < 0.01);
    }
}
