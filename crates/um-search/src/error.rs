//! Errors that are found before a launch.

/// The result of this crate's functions.
pub type Result<T, E = SearchError> = std::result::Result<T, E>;

/// The reason why a search was not launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A buffer does not have the length that the launch needs.
    #[error("{kernel}: `{buffer}` has {found} elements, {expected} are needed")]
    Length {
        /// The search.
        kernel: &'static str,
        /// The buffer, with the name of the launcher's parameter.
        buffer: &'static str,
        /// The required number of elements.
        expected: usize,
        /// The actual number of elements.
        found: usize,
    },
    /// A number is outside of the allowed range.
    #[error("{kernel}: {parameter} is {found}; allowed: {allowed}")]
    Value {
        /// The search.
        kernel: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        found: usize,
        /// The allowed values, as text.
        allowed: String,
    },
    /// The device cannot run the search.
    #[error("{kernel} is not supported here: {reason}")]
    Unsupported {
        /// The search.
        kernel: &'static str,
        /// The reason, as text.
        reason: String,
    },
    /// An error of CUDA or of `cuda-um`.
    #[error(transparent)]
    Cuda(#[from] cuda_um::Error),
}

impl SearchError {
    /// True if there is not enough memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Cuda(error) if error.kind() == cuda_um::ErrorKind::OutOfMemory)
    }
}

/// Checks the length of a buffer.
pub(crate) fn length(
    kernel: &'static str,
    buffer: &'static str,
    expected: usize,
    found: usize,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(SearchError::Length {
        kernel,
        buffer,
        expected,
        found,
    })
}
