//! Shapes and strides.

use dlpark::tensor::TensorRef;

use crate::error::{Error, Result};

/// The extents of a tensor whose elements follow each other in row-major order.
pub(crate) fn compact(tensor: &TensorRef<'_>) -> Result<Vec<usize>> {
    let shape = tensor.shape();
    if let Some(strides) = tensor.strides()
        && !is_compact(shape, strides)
    {
        return Err(Error::Strides {
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        });
    }
    // The tensor was validated: no extent is negative, and their product fits.
    Ok(shape.iter().map(|&extent| extent as usize).collect())
}

/// The stride of an extent of 1 is never used, and libraries write any value there.
fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    let mut axes = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || axes.all(|(&extent, &stride)| {
            let fits = extent == 1 || stride == expected;
            expected *= extent;
            fits
        })
}

/// Checks that the shape has as many elements as the buffer, and returns its extents for DLPack.
pub(crate) fn extents(shape: &[usize], len: usize) -> Result<Vec<i64>> {
    let product = shape
        .iter()
        .try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let found = match shape.contains(&0) {
        true => 0,
        false => product.unwrap_or(usize::MAX),
    };
    let extents: Option<Vec<i64>> = shape.iter().map(|&extent| extent.try_into().ok()).collect();
    match extents {
        Some(extents) if found == len => Ok(extents),
        _ => Err(Error::Shape {
            shape: shape.to_vec(),
            found,
            expected: len,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_extents_that_are_one_do_not_matter() {
        for (shape, strides, expected) in [
            (&[2, 3][..], &[3, 1][..], true),
            (&[1, 4], &[1, 1], true),
            (&[3, 1, 2], &[2, 99, 1], true),
            (&[0, 4], &[7, 7], true),
            (&[], &[], true),
            (&[2, 3], &[1, 2], false),
            (&[4], &[2], false),
            (&[4], &[-1], false),
            (&[4], &[0], false),
        ] {
            assert_eq!(
                is_compact(shape, strides),
                expected,
                "{shape:?} {strides:?}"
            );
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        assert_eq!(extents(&[2, 3], 6).unwrap(), [2, 3]);
        assert_eq!(extents(&[], 1).unwrap(), [0; 0]);
        assert_eq!(extents(&[1 << 62, 4, 0], 0).unwrap(), [1 << 62, 4, 0]);
        for (shape, len) in [
            (&[2, 3][..], 5),
            (&[], 0),
            (&[usize::MAX, 2], 6),
            (&[1 << 63, 0], 0),
        ] {
            assert!(
                matches!(extents(shape, len), Err(Error::Shape { .. })),
                "{shape:?}"
            );
        }
    }
}
