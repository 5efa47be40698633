//! Errors.

use cuda_um::cost::CostError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The result of this crate's functions.
pub type Result<T, E = CalibrateError> = std::result::Result<T, E>;

/// The reason why there is no cost model of this machine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The environment variable names a file that is not a cost model.
    #[error("{variable} cannot be {}: {source}", path.display())]
    Variable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
        /// The reason.
        source: CostError,
    },
    /// The device or its driver cannot be asked for its properties.
    #[error("no properties of the device: {0}")]
    Device(#[source] cuda_um::Error),
    /// A step of the measurement failed: an error of CUDA, or a result that is wrong.
    #[error("measuring {step}: {source}")]
    Step {
        /// The step.
        step: &'static str,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The user has no cache folder: for example, there is no home folder.
    #[error("no cache folder: {reason}")]
    NoFolder {
        /// The reason.
        reason: String,
    },
    /// The file of the cache cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// For callers whose functions return the error of `cuda-um`.
impl From<CalibrateError> for cuda_um::Error {
    fn from(error: CalibrateError) -> Self {
        Self::Other(Box::new(error))
    }
}
