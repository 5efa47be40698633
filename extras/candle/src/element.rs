//! The element types, and the storages of tensors.

use crate::error::{Error, Result};
use candle_core::cuda::CudaDType;
use candle_core::{CudaStorage, Layout, Shape, Storage, Tensor, WithDType};
use std::ops::Range;

/// An element of a tensor that the host uses in place: `u8`, `u32`, `i16`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64`.
pub trait Element: cuda_um::DeviceCopy + WithDType + CudaDType {}

impl<T: cuda_um::DeviceCopy + WithDType + CudaDType> Element for T {}

/// Runs an expression with the slice of a storage of this kind, whatever its type; `None` for types that candle does not compute with.
macro_rules! with_slice {
    ($kind:ident, $storage:expr, $slice:ident => $do:expr) => {
        match $storage {
            $kind::U8($slice) => Some($do),
            $kind::U32($slice) => Some($do),
            $kind::I16($slice) => Some($do),
            $kind::I32($slice) => Some($do),
            $kind::I64($slice) => Some($do),
            $kind::BF16($slice) => Some($do),
            $kind::F16($slice) => Some($do),
            $kind::F32($slice) => Some($do),
            $kind::F64($slice) => Some($do),
            $kind::F8E4M3($slice) => Some($do),
            _ => None,
        }
    };
}
pub(crate) use candle_core::cuda::CudaStorageSlice as StorageSlice;
pub(crate) use with_slice;

/// The part of the storage that a tensor has, in elements.
pub(crate) fn part(layout: &Layout) -> Result<Range<usize>> {
    let (start, end) = layout
        .contiguous_offsets()
        .ok_or_else(|| Error::NotContiguous {
            shape: layout.dims().to_vec(),
            strides: layout.stride().to_vec(),
        })?;
    Ok(start..end)
}

/// The storage of a tensor on a GPU.
pub(crate) fn on_cuda(storage: &Storage) -> Option<&CudaStorage> {
    match storage {
        Storage::Cuda(storage) => Some(storage),
        _ => None,
    }
}

/// Refuses a tensor of another element type.
pub(crate) fn check_type<T: Element>(tensor: &Tensor) -> Result<()> {
    let (expected, found) = (T::DTYPE, tensor.dtype());
    match found == expected {
        true => Ok(()),
        false => Err(Error::OtherType { expected, found }),
    }
}

/// Refuses a shape with another number of elements.
pub(crate) fn check_shape(elements: usize, shape: &Shape) -> Result<()> {
    let expected = shape.elem_count();
    match elements == expected {
        true => Ok(()),
        false => Err(Error::Shape {
            elements,
            shape: shape.dims().to_vec(),
            expected,
        }),
    }
}

/// Names the tensor in the error of memory that is not managed.
pub(crate) fn explain(error: um_cudarc::Error, tensor: &Tensor) -> Error {
    match error {
        um_cudarc::Error::Um(cuda_um::Error::Foreign { found, .. }) => Error::NotManaged {
            shape: tensor.dims().to_vec(),
            found,
        },
        error => error.into(),
    }
}
