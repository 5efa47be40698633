//! Shapes and strides.

use bytemuck::{Pod, Zeroable};
use std::fmt::Display;
use um_backend::cuda_um::Error;
use um_backend::{CudaError, Result};

/// A shape and strides, as the kernels take them by value.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Layout {
    rank: u64,
    shape: [u64; 4],
    strides: [u64; 4],
}

impl Layout {
    /// Up to four dimensions.
    pub(super) fn new(shape: &[usize], strides: &[usize]) -> Result<Self> {
        if shape.len() > 4 || shape.len() != strides.len() {
            return Err(refused(
                "a shape",
                format!("{shape:?}"),
                "a copy has up to 4 dimensions",
            ));
        }
        let padded = |values: &[usize]| {
            std::array::from_fn(|d| values.get(d).map_or(1, |value| *value as u64))
        };
        Ok(Self {
            rank: shape.len() as u64,
            shape: padded(shape),
            strides: padded(strides),
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The elements from the first to the last one.
    pub(super) fn span(&self) -> u64 {
        let last = |(length, stride): (&u64, &u64)| (length - 1) * stride;
        if self.count() == 0 {
            0
        } else {
            1 + self.shape.iter().zip(&self.strides).map(last).sum::<u64>()
        }
    }

    /// The place of the element with this number, row by row.
    fn place(&self, mut number: usize) -> usize {
        let mut place = 0;
        for (length, stride) in self.shape.iter().zip(&self.strides).rev() {
            place += number % *length as usize * *stride as usize;
            number /= *length as usize;
        }
        place
    }

    /// Copies the elements row by row.
    pub(super) fn copy<T: Copy>(&self, input: &[T], output: &mut [T]) {
        let places = (0..).map(|number| self.place(number));
        output
            .iter_mut()
            .zip(places)
            .for_each(|(output, place)| *output = input[place]);
    }
}

/// The strides of elements that are in storage row by row.
pub(super) fn row_by_row(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    strides
}

/// The elements from the first to the last one.
pub(super) fn span(shape: &[usize], strides: &[usize]) -> usize {
    let last = |(length, stride): (&usize, &usize)| length.saturating_sub(1) * stride;
    match shape.contains(&0) {
        true => 0,
        false => 1 + shape.iter().zip(strides).map(last).sum::<usize>(),
    }
}

/// The error of an argument.
pub(super) fn refused(
    what: &'static str,
    value: impl Display,
    reason: impl Into<String>,
) -> CudaError {
    Error::InvalidArgument {
        what,
        value: value.to_string(),
        reason: reason.into(),
    }
}
