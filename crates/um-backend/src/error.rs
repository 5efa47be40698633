//! The error type of `cuda_um`, and conversions to it.

pub use cuda_um::{Error as CudaError, Result};

/// The simulator could not be built.
#[cfg(feature = "sim")]
pub(crate) fn of_simulator(error: cuda_um_sim::SimError) -> CudaError {
    CudaError::Other(Box::new(error))
}

/// An error's message without line breaks.
pub(crate) fn one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
