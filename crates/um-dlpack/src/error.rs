//! Errors of imports and exports.

use um_backend::{CudaError, DType};

/// The result of the calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an import or an export. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The element type has no equal in DLPack.
    #[error(
        "dtype {dtype} cannot be exported: DLPack has no opaque elements; cast the buffer to u8 first"
    )]
    OpaqueDType {
        /// The type.
        dtype: DType,
    },
    /// The element type has no equal in um-backend.
    #[error(
        "a tensor of DLPack type code {code} with {bits} bits and {lanes} lanes cannot be imported: allowed are one lane of bool, \
         float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, complex64, complex128, int8 to int64 and uint8 to uint64; \
         convert it in the exporting library"
    )]
    DType {
        /// `DLDataTypeCode`.
        code: u8,
        /// The bits of one lane.
        bits: u8,
        /// The lanes of an element.
        lanes: u16,
    },
    /// The elements are not one after the other.
    #[error(
        "a tensor of shape {shape:?} with strides {strides:?} cannot be imported: its elements must follow each other in row-major \
         order; make it contiguous in the exporting library"
    )]
    Strides {
        /// The extents, in elements.
        shape: Vec<i64>,
        /// The strides, in elements.
        strides: Vec<i64>,
    },
    /// The shape does not have as many elements as the buffer, or an extent that DLPack does not have.
    #[error(
        "shape {shape:?} has {found} elements, and the buffer has {expected}: they must be equal, and each extent less than 2^63"
    )]
    Shape {
        /// The extents, in elements.
        shape: Vec<usize>,
        /// The elements of the shape.
        found: usize,
        /// The elements of the buffer.
        expected: usize,
    },
    /// The device type is none that can be imported.
    #[error(
        "a tensor of DLPack device type {device_type} cannot be imported: allowed are 1 (CPU), 2 (CUDA), 3 (pinned by CUDA) and 13 \
         (managed by CUDA); copy it to one of them in the exporting library"
    )]
    DeviceType {
        /// `DLDeviceType`.
        device_type: u32,
    },
    /// The tensor is on another device than the backend.
    #[error(
        "the tensor is on CUDA device {found}, and the backend on device {expected}: import it with the backend of device {found}"
    )]
    DeviceOrdinal {
        /// The device of the tensor.
        found: i32,
        /// The device of the backend.
        expected: usize,
    },
    /// The memory cannot be exported in this way.
    #[error("{memory} cannot be exported as {target}: {reason}")]
    Target {
        /// The memory of the buffer.
        memory: String,
        /// The requested device type.
        target: &'static str,
        /// The reason, and what to do.
        reason: &'static str,
    },
    /// A read-only export needs the versioned form.
    #[error(
        "read-only memory cannot be exported in the form before DLPack 1.0, which has no flags: request version 1.0 (in Python, \
         `max_version=(1, 0)`), or export a copy"
    )]
    ReadOnlyNeedsVersion,
    /// The description of the tensor contradicts itself.
    #[error("invalid DLPack tensor: {0}")]
    Invalid(#[from] dlpark::tensor::Error),
    /// The memory of the description could not be allocated.
    #[error("DLPack tensor: {0}")]
    Allocation(String),
    /// The thread that drops returned exports could not be started.
    #[error("the thread that drops returned exports cannot be started: {0}")]
    Thread(#[from] std::io::Error),
    /// An error of the backend.
    #[error(transparent)]
    Backend(#[from] CudaError),
}
