//! What a file says about its tensors.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use um_backend::DType;
use um_backend::cuda_um::buffer::Runs;

use crate::error::{Error, Result};

/// A tensor in a file: what its header says.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: usize,
    pub(crate) file: Arc<Path>,
    /// The index of the file.
    pub(crate) shard: usize,
    pub(crate) offset: u64,
}

/// The element type as files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) dtype: DType,
    /// The elements of a tensor that one element of the buffer holds.
    pub(crate) block: usize,
}

/// A slice of a tensor: its runs of bytes in the file, and its shape.
pub(crate) struct Cut {
    pub(crate) runs: Runs,
    pub(crate) shape: Vec<usize>,
}

/// Bytes that follow each other in a file, at the beginning of a target.
pub(crate) fn whole(offset: u64, bytes: usize) -> Runs {
    Runs {
        offset,
        at: 0,
        bytes,
        count: 1,
        stride: 0,
    }
}

/// The number of elements of a shape, if it can be addressed. As for NumPy, dimensions of 0 do not hide others.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    let mut dimensions = shape.iter();
    let product = dimensions.try_fold(1usize, |product, &len| product.checked_mul(len.max(1)));
    let product = product.filter(|product| isize::try_from(*product).is_ok())?;
    Some(if shape.contains(&0) { 0 } else { product })
}

impl TensorInfo {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the buffer's elements. Types without one of their own, and blocks of quantised weights, are [`DType::Opaque`].
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.kind.dtype
    }

    /// The name of the type in the file's format: `"F32"`, `"F8_E8M0"`, `"Q4_K"`.
    #[must_use]
    pub fn dtype_name(&self) -> &'static str {
        self.kind.name
    }

    /// The number of the tensor's elements that one element of the buffer holds: 1, or more for blocks of quantised weights and types smaller
    /// than a byte.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.kind.block
    }

    /// The number of elements in each dimension; neighbours in memory differ in the last one.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// The file that has the tensor.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The position of the first byte in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A range of one dimension.
    pub(crate) fn cut(&self, dimension: usize, range: Range<usize>) -> Result<Cut> {
        let (shape, Kind { name, block, .. }) = (&self.shape, self.kind);
        let is_last = dimension.checked_add(1) == Some(shape.len());
        let ends = [range.start, range.end].into_iter().filter(|_| is_last);
        let mut ends = ends.chain(shape.last().copied());
        let reason = match shape.get(dimension) {
            None => format!("it has {} dimensions", shape.len()),
            Some(len) if range.start > range.end || range.end > *len => {
                format!("the dimension has {len} elements")
            }
            _ if !ends.all(|at| at.is_multiple_of(block)) => {
                format!("blocks of {name} have {block} elements")
            }
            Some(len) => return Ok(self.cut_checked(dimension, range, *len)),
        };
        let wanted = format!("slice {range:?} of dimension {dimension}");
        let reason = format!("shape {shape:?} has no {wanted}: {reason}");
        Err(Error::refused(&self.name, reason))
    }

    fn cut_checked(&self, dimension: usize, range: Range<usize>, len: usize) -> Cut {
        let (mut shape, mut runs) = (self.shape.clone(), whole(self.offset, self.bytes));
        shape[dimension] = range.len();
        if self.bytes == 0 || range.is_empty() {
            runs.bytes = 0;
        } else if range.len() < len {
            runs.count = self.shape[..dimension].iter().product();
            // The size of the tensor was checked, so no product overflows. A range of the last dimension may be smaller than an element.
            let row = self.bytes / runs.count;
            let bytes_of =
                |elements: usize| (row as u128 * elements as u128 / len as u128) as usize;
            runs.offset += bytes_of(range.start) as u64;
            (runs.bytes, runs.stride) = (bytes_of(range.len()), row as u64);
        }
        Cut { runs, shape }
    }
}
