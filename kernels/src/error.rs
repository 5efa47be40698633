//! What can be wrong with a launch before it happens.

/// The result of this crate's functions.
pub type Result<T, E = KernelError> = std::result::Result<T, E>;

/// Why a kernel was not launched.
#[derive(Debug)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer is not as long as the launch needs.
    Length {
        /// The kernel.
        kernel: &'static str,
        /// The buffer, as the launcher's parameter is called.
        buffer: &'static str,
        /// Elements that it must have.
        expected: usize,
        /// Elements that it has.
        found: usize,
    },
    /// A number is outside of what the kernel takes.
    Value {
        /// The kernel.
        kernel: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        found: usize,
        /// What is allowed, in words.
        allowed: String,
    },
    /// The device cannot run it.
    Unsupported {
        /// The kernel.
        kernel: &'static str,
        /// Why, in words.
        reason: String,
    },
    /// CUDA, or the library below, said no.
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
            Self::Unsupported { kernel, reason } => {
                write!(f, "{kernel} is not supported here: {reason}")
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

/// Checks a buffer's length.
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
