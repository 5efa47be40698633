//! Views: other shapes and strides of the same storage.

use super::layout::{Layout, refused, row_by_row, span};
use super::tensor::Tensor;
use std::ops::Range;
use um_backend::{DType, Result};

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
        let strides = expanded.strides.iter_mut();
        for (stride, (from, to)) in strides.zip(self.shape.iter().zip(shape)) {
            if from != to {
                *stride = 0;
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
        let out = Self::for_output(&self.place, self.dtype(), &self.shape)?;
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
