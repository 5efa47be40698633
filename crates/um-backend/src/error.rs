//! What can go wrong, in the words of a tensor framework.

use crate::dtype::DType;

/// The result of nearly every call of this crate.
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// What went wrong. Every message is one line.
///
/// # Examples
/// ```
/// use um_backend::{CudaBackend, CudaBackendConfig, CudaError};
///
/// # let config = CudaBackendConfig::default().simulator(um_backend::sim::Sim::builder().build()?);
/// let backend = CudaBackend::initialize_blocking(config)?;
/// match backend.allocate_unified::<f32>(1 << 50) {
///     Err(CudaError::OutOfMemory { requested_bytes, free_bytes, .. }) => assert!(requested_bytes > free_bytes),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// Not enough memory on the device (or, for host memory, in the machine).
    #[error(
        "out of memory: {subject}: {requested_bytes} bytes requested, {free_bytes} free of {total_bytes}"
    )]
    OutOfMemory {
        /// What the memory was for.
        subject: String,
        /// The bytes that were asked for; 0 where a call asks for none by itself.
        requested_bytes: usize,
        /// The bytes that were free (0 where unknown).
        free_bytes: usize,
        /// The bytes there are in all (0 where unknown).
        total_bytes: usize,
    },
    /// The runtime, the device, this build or this buffer cannot do it.
    #[error("{what} is not supported: it needs {needs}, and there is {have}")]
    NotSupported {
        /// What was asked for.
        what: String,
        /// The version, capability or feature that it needs.
        needs: String,
        /// What there is instead.
        have: String,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: the buffer has {buffer_len} elements, and {other_len} were given")]
    LengthMismatch {
        /// Which call.
        what: &'static str,
        /// The length of the buffer (of its range, where a range was given).
        buffer_len: usize,
        /// The length of the slice or of the other buffer.
        other_len: usize,
    },
    /// A range of elements that is not within the buffer.
    #[error("range {start}..{end} is not within the buffer's {len} elements")]
    RangeOutOfBounds {
        /// The range's first element.
        start: usize,
        /// The element after the range's last one.
        end: usize,
        /// The buffer's length.
        len: usize,
    },
    /// A length whose size in bytes does not fit the address space.
    #[error(
        "{len} elements of {element_bytes} bytes are more than can be addressed: {} bytes",
        isize::MAX
    )]
    TooLarge {
        /// The length that was asked for.
        len: usize,
        /// The size of one element.
        element_bytes: usize,
    },
    /// The [`DType`] that was given is not the element type's.
    #[error("dtype {requested} was asked for, but the element type is {element}")]
    DTypeMismatch {
        /// The `DType` that was given.
        requested: DType,
        /// The `DType` of the element type.
        element: DType,
    },
    /// No device has this ordinal.
    #[error("there is no device {ordinal}: the runtime has {count}")]
    NoSuchDevice {
        /// The ordinal that was asked for.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },
    /// There is no GPU to run on.
    #[error("no GPU: {reason}")]
    NoGpu {
        /// Why not, in one line: no library, no driver, or no device.
        reason: String,
    },
    /// Migrations cannot be counted here.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Profile(#[from] cuda_um::profile::ProfileError),
    /// An environment variable holds something else than its documentation lists.
    #[error("{name}={value}: expected {expected}")]
    InvalidSetting {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },
    /// It is in use now: on devices without concurrent managed access, a host view keeps kernels and copies off.
    #[error("{what} is busy: {by}")]
    Busy {
        /// What is in use.
        what: String,
        /// By what.
        by: String,
    },
    /// The device's context is broken: every later call fails until the process ends.
    #[error(transparent)]
    DeviceLost(cuda_um::Error),
    /// Any other failure below.
    #[error(transparent)]
    Cuda(cuda_um::Error),
    /// The simulator could not be built.
    #[cfg(feature = "sim")]
    #[error("simulator: {0}")]
    Simulator(#[from] cuda_um_sim::SimError),
}

impl CudaError {
    /// Whether this is [`CudaError::OutOfMemory`].
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// Whether every later call will fail too, until the process ends: the device is lost, or the process is a child made by `fork`.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::DeviceLost(_) => true,
            Self::Cuda(error) => error.is_sticky(),
            _ => false,
        }
    }
}

impl From<cuda_um::Error> for CudaError {
    fn from(error: cuda_um::Error) -> Self {
        use cuda_um::Error as Below;
        match error {
            Below::OutOfMemory {
                call,
                subject,
                requested_bytes,
                free_bytes,
                total_bytes,
            } => Self::OutOfMemory {
                subject: format!("{call}: {subject}"),
                requested_bytes,
                free_bytes,
                total_bytes,
            },
            Below::NotSupported { what, needs, have } => Self::NotSupported { what, needs, have },
            Below::LengthMismatch {
                what,
                expected,
                found,
            } => Self::LengthMismatch {
                what,
                buffer_len: expected,
                other_len: found,
            },
            Below::RangeOutOfBounds { start, end, len } => {
                Self::RangeOutOfBounds { start, end, len }
            }
            Below::TooLarge { len, element_bytes } => Self::TooLarge { len, element_bytes },
            Below::DeviceOutOfRange { ordinal, count } => Self::NoSuchDevice {
                ordinal: ordinal as usize,
                count,
            },
            Below::Busy { what, by } => Self::Busy { what, by },
            // Half-way through a copy, too.
            sticky if sticky.kind() == cuda_um::ErrorKind::Sticky => Self::DeviceLost(sticky),
            none @ (Below::Load(_) | Below::NoDriver { .. } | Below::NoDevice { .. }) => {
                Self::NoGpu {
                    reason: one_line(&none),
                }
            }
            other => Self::Cuda(other),
        }
    }
}

/// An error's message without line breaks.
pub(crate) fn one_line(error: &dyn std::fmt::Display) -> String {
    error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_from_below_keep_their_values() {
        let oom = cuda_um::Error::OutOfMemory {
            call: "cudaMalloc",
            subject: "device buffer".into(),
            requested_bytes: 10,
            free_bytes: 4,
            total_bytes: 8,
        };
        let oom = CudaError::from(oom);
        assert!(oom.is_out_of_memory());
        assert_eq!(
            oom.to_string(),
            "out of memory: cudaMalloc: device buffer: 10 bytes requested, 4 free of 8"
        );
        let none = CudaError::from(cuda_um::Error::NoDevice {
            call: "cudaGetDeviceCount",
        });
        assert!(
            matches!(&none, CudaError::NoGpu { reason } if reason.contains("cudaGetDeviceCount")),
            "{none}"
        );
        let forked = CudaError::from(cuda_um::Error::Forked { call: "cudaFree" });
        assert!(forked.is_sticky() && forked.to_string().contains("fork"));
        let length = cuda_um::Error::LengthMismatch {
            what: "copy_from_host",
            expected: 4,
            found: 3,
        };
        let text = CudaError::from(length).to_string();
        assert!(text.contains('4') && text.contains('3'), "{text}");
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line(&"tried:\n  a\n  b"), "tried: a b");
    }
}
