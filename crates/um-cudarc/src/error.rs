//! Errors.

use cudarc::driver::DriverError;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of cuda-um.
    #[error(transparent)]
    Um(#[from] cuda_um::Error),
    /// An error of cudarc.
    #[error("cudarc: {0}")]
    Cudarc(#[from] DriverError),
    /// A context that is not the primary one of its device.
    #[error(
        "the context of cudarc on device {ordinal} is not the primary context, which cuda-um uses: make it with `CudaContext::new({ordinal})`"
    )]
    NotPrimary {
        /// The device's ordinal.
        ordinal: usize,
    },
    /// The libraries use different drivers: a GPU and the simulator, for example.
    #[error(
        "device {ordinal} is `{cudarc}` for cudarc and `{cuda_um}` for cuda-um: open both over the same driver"
    )]
    OtherDriver {
        /// The device's ordinal.
        ordinal: usize,
        /// The device's name for cudarc.
        cudarc: String,
        /// The device's name for cuda-um.
        cuda_um: String,
    },
    /// An object of another context than that of the shared device.
    #[error(
        "{what} is of another context of cudarc, on device {found}; the shared device is device {expected}: use objects of its context"
    )]
    OtherContext {
        /// The object.
        what: &'static str,
        /// The ordinal of the shared device.
        expected: usize,
        /// The ordinal of the object's device.
        found: usize,
    },
    /// A source that is longer than the target of a copy.
    #[error(
        "memcpy_htod_staged: the source has {source_len} elements and the target {target_len}: copy a part of the source"
    )]
    TooLong {
        /// The elements of the source.
        source_len: usize,
        /// The elements of the target.
        target_len: usize,
    },
}
