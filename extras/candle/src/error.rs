//! Errors.

use candle_core::{DType, DeviceLocation};

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of cuda-um or um-cudarc.
    #[error(transparent)]
    Um(#[from] um_cudarc::Error),
    /// An error of um-weights.
    #[error(transparent)]
    Weights(#[from] um_weights::Error),
    /// An error of candle.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// A tensor or a device that is not the CUDA device of the [`UnifiedDevice`](crate::UnifiedDevice).
    #[error(
        "{what} is on {found:?}, and the unified device is {expected:?}: use `Tensor::to_device`"
    )]
    OtherDevice {
        /// The object.
        what: &'static str,
        /// The place of the unified device.
        expected: DeviceLocation,
        /// The place of the object.
        found: DeviceLocation,
    },
    /// A device of candle that is not a CUDA device.
    #[error("the device is {found:?}: make it with `Device::new_cuda_with_stream`")]
    NotCuda {
        /// The place of the device.
        found: DeviceLocation,
    },
    /// A tensor whose elements are not one after the other.
    #[error(
        "the tensor of shape {shape:?} has strides {strides:?}, so its elements are not contiguous: use `Tensor::contiguous`"
    )]
    NotContiguous {
        /// The dimensions.
        shape: Vec<usize>,
        /// The strides in elements.
        strides: Vec<usize>,
    },
    /// A tensor of another type.
    #[error(
        "the tensor has elements of {found:?}, and the host asks for {expected:?}: name the tensor's type"
    )]
    OtherType {
        /// The type that was asked for.
        expected: DType,
        /// The type of the tensor.
        found: DType,
    },
    /// A type that this crate does not handle.
    #[error(
        "tensors of {found:?} cannot be in unified memory: use a type of whole bytes that candle computes with"
    )]
    Unsupported {
        /// The type.
        found: DType,
    },
    /// A number of elements that is not that of the shape.
    #[error("{elements} elements do not fill the shape {shape:?}, which has {expected}")]
    Shape {
        /// The number of elements.
        elements: usize,
        /// The dimensions.
        shape: Vec<usize>,
        /// Their product.
        expected: usize,
    },
    /// A tensor in other memory.
    #[error(
        "the tensor of shape {shape:?} is in {found}: make it with `UnifiedDevice::zeros`, `from_slice` or `copy`"
    )]
    NotManaged {
        /// The dimensions.
        shape: Vec<usize>,
        /// The memory.
        found: String,
    },
    /// Other code took the memory of a lent tensor out of its storage. The buffer is leaked, because that code may still use it.
    #[error(
        "the storage of a lent tensor has other memory than before: its buffer of {bytes} bytes is leaked"
    )]
    Swapped {
        /// The size of the buffer.
        bytes: usize,
    },
}

impl From<cuda_um::Error> for Error {
    fn from(error: cuda_um::Error) -> Self {
        Self::Um(error.into())
    }
}
