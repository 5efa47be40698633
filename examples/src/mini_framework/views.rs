//! Views: other shapes and strides of the same storage.

use super::kernels::Layout;
use super::tensor::Tensor;
use std::fmt::Display;
use std::ops::Range;
use um_backend::cuda_um::Error;
use um_backend::{CudaError, DType, Result};

impl Tensor {
    /// A range of one dimension. It is the same storage.
    ///
    /// # Errors
    /// There is no such dimension or range.
    pub fn narrow(&self, dimension: usize, range: Range<usize>) -> Result<Self> {
        let Some(length) = self.shape.get(dimension) else {
            return Err(refused(
                "a dimension",
                dimension,
                format!("the tensor has {}", self.shape.len()),
            ));
        };
        if range.start > range.end || range.end > *length {
            return Err(refused(
                "a range",
                format!("{range:?}"),
                format!("the dimension has {length} elements"),
            ));
        }
        let mut narrow = self.clone();
        narrow.shape[dimension] = range.len();
        let start = if narrow.is_empty() {
            0
        } else {
            range.start * self.strides[dimension]
        };
        narrow.storage = self
            .storage
            .view(start..start + span(&narrow.shape, &self.strides))?;
        Ok(narrow)
    }

    /// The same storage with two dimensions swapped.
    ///
    /// # Panics
    /// There is no such dimension.
    #[must_use]
    pub fn transpose(&self, a: usize, b: usize) -> Self {
        let mut swapped = self.clone();
        swapped.shape.swap(a, b);
        swapped.strides.swap(a, b);
        swapped
    }

    /// Repeats dimensions of length 1, without a copy: their stride becomes 0.
    ///
    /// # Errors
    /// Another dimension would change.
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        let may = |(from, to): (&usize, &usize)| from == to || *from == 1;
        if shape.len() != self.shape.len() || !self.shape.iter().zip(shape).all(may) {
            return Err(refused(
                "a shape",
                format!("{shape:?}"),
                format!("the tensor has {:?}", self.shape),
            ));
        }
        let mut expanded = self.clone();
        for d in 0..shape.len() {
            if shape[d] != self.shape[d] {
                expanded.strides[d] = 0;
            }
        }
        expanded.shape = shape.to_vec();
        Ok(expanded)
    }

    /// The same elements in another shape: the same storage if the elements are in order there.
    ///
    /// # Errors
    /// The shape has another number of elements; or a copy failed.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        if shape.iter().product::<usize>() != self.len() {
            return Err(refused(
                "a shape",
                format!("{shape:?}"),
                format!("the tensor has {} elements", self.len()),
            ));
        }
        let mut reshaped = self.contiguous()?;
        reshaped.strides = row_by_row(shape);
        reshaped.shape = shape.to_vec();
        Ok(reshaped)
    }

    /// Whether the elements are in storage row by row.
    pub fn is_contiguous(&self) -> bool {
        self.strides == row_by_row(&self.shape) && self.storage.len() == self.len()
    }

    /// The same elements row by row: the same storage, or a copy by a kernel that takes the shape and the strides by value.
    ///
    /// # Errors
    /// There is no memory, there are too many dimensions, or the launch failed.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let out = Self::zeros(&self.place, self.dtype(), &self.shape)?;
        let layout = Layout::new(&self.shape, &self.strides)?;
        if let Some(kernels) = &self.place.kernels {
            let input = self.storage.read()?;
            kernels.copy(
                &self.place.stream,
                &input,
                layout,
                &mut out.storage.write()?,
            )?;
            return Ok(out);
        }
        macro_rules! copy {
            ($dtype:ident, $type:ty) => {{
                let (input, output) = (
                    self.storage.cast(DType::$dtype)?,
                    out.storage.cast(DType::$dtype)?,
                );
                layout.copy(&input.host::<$type>()?, &mut output.host_mut::<$type>()?);
            }};
        }
        match self.dtype().size_bytes() {
            1 => copy!(U8, u8),
            2 => copy!(U16, u16),
            4 => copy!(U32, u32),
            _ => copy!(U64, u64),
        }
        Ok(out)
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
fn span(shape: &[usize], strides: &[usize]) -> usize {
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
    .into()
}
