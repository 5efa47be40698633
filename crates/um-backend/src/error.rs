//! The error type of `cuda_um`, and conversions to it.

pub use cuda_um::{Error as CudaError, Result};

/// An error's message without line breaks.
pub(crate) fn one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn invalid(
    what: &'static str,
    value: impl std::fmt::Display,
    reason: impl Into<String>,
) -> CudaError {
    CudaError::InvalidArgument {
        what,
        value: value.to_string(),
        reason: reason.into(),
    }
}
