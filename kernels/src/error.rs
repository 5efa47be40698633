//! Errors that are found before a launch.

/// The result of this crate's functions.
pub type Result<T, E = KernelError> = std::result::Result<T, E>;

/// The reason why a kernel was not launched.
#[derive(Debug)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer does not have the length that the launch needs.
    Length {
        /// The kernel.
        kernel: &'static str,
        /// The buffer, with the name of the launcher's parameter.
        buffer: &'static str,
        /// The required number of elements.
        expected: usize,
        /// The actual number of elements.
        found: usize,
    },
    /// A number is outside of the allowed range.
    Value {
        /// The kernel.
        kernel: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        found: usize,
        /// The allowed values, as text.
        allowed: String,
    },
    /// An error of CUDA or of `cuda-um`.
    Cuda(cuda_um::Error),
}

impl std::fmt::Display for KernelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length {
                kernel,
                buffer,
                expected,
                found,
            } => {
                write!(
                    f,
                    "{kernel}: `{buffer}` has {found} elements, {expected} are needed"
                )
            }
            Self::Value {
                kernel,
                parameter,
                found,
                allowed,
            } => {
                write!(f, "{kernel}: {parameter} is {found}; allowed: {allowed}")
            }
            Self::Cuda(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KernelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cuda(error) => error.source(),
            _ => None,
        }
    }
}

impl From<cuda_um::Error> for KernelError {
    fn from(error: cuda_um::Error) -> Self {
        Self::Cuda(error)
    }
}

/// For callers whose functions return the error of `cuda-um`.
impl From<KernelError> for cuda_um::Error {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Cuda(error) => error,
            KernelError::Length {
                kernel,
                buffer,
                expected,
                found,
            } => Self::InvalidArgument {
                what: kernel,
                value: format!("launched with {found} elements of `{buffer}`"),
                reason: format!("{expected} are needed"),
            },
            KernelError::Value {
                kernel,
                parameter,
                found,
                allowed,
            } => Self::InvalidArgument {
                what: kernel,
                value: format!("launched with {parameter} = {found}"),
                reason: format!("allowed is {allowed}"),
            },
        }
    }
}

/// The view of an argument, or an error with the name of its parameter.
pub(crate) fn argument<V>(
    kernel: &'static str,
    parameter: &'static str,
    view: cuda_um::Result<V>,
) -> Result<V> {
    view.map_err(|error| error.of_argument(kernel, parameter).into())
}

/// Checks the length of a buffer.
pub(crate) fn length(
    kernel: &'static str,
    buffer: &'static str,
    expected: usize,
    found: usize,
) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(KernelError::Length {
            kernel,
            buffer,
            expected,
            found,
        })
    }
}
