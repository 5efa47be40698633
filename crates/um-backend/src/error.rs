//! Errors of the backend.

use crate::dtype::DType;

/// The result of nearly every call of this crate.
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// An error of the backend: one of its own, or an error of the safe layer below ([`CudaError::Cuda`]). Every message is one line.
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
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// Not enough memory on the device, or, for host memory, in the machine.
    #[error(
        "out of memory: {subject}: {requested_bytes} bytes requested, {free_bytes} free of {total_bytes}; \
         drop buffers, or request less memory"
    )]
    OutOfMemory {
        /// The call and the buffer that needed the memory.
        subject: String,
        /// The bytes that were requested; 0 if the call requests no memory itself.
        requested_bytes: usize,
        /// The bytes that were free; 0 if unknown.
        free_bytes: usize,
        /// All bytes of the device or the machine; 0 if unknown.
        total_bytes: usize,
    },
    /// The given [`DType`] is not that of the element type.
    #[error(
        "dtype {requested} was requested, but the element type is {element}: both must be the same"
    )]
    DTypeMismatch {
        /// The `DType` that was given.
        requested: DType,
        /// The `DType` of the element type.
        element: DType,
    },
    /// A copy between erased buffers of different element types.
    #[error(
        "copy_from: the source has dtype {source_dtype}, and the target has {target_dtype}: a copy does not convert"
    )]
    ErasedMismatch {
        /// The `DType` of the source.
        source_dtype: DType,
        /// The `DType` of the target.
        target_dtype: DType,
    },
    /// A call would wait for a guard of shared storage that may be the caller's own.
    #[error(
        "{call}: the caller could wait for its own guard, since the storage is in use by {held}: drop it first, split one write guard into parts (`view_mut`, then `ViewMut::split_at`), or wait in tasks with `read_async` and `write_async`"
    )]
    WouldDeadlock {
        /// The function of this crate.
        call: &'static str,
        /// The guards of the storage.
        held: String,
    },
    /// A call that does not wait found guards of shared storage.
    #[error(
        "{call}: the storage is in use by {held}: drop the guards first, or wait with the call without `try_`"
    )]
    StorageInUse {
        /// The function of this crate.
        call: &'static str,
        /// The guards of the storage.
        held: String,
    },
    /// No device has this ordinal.
    #[error("there is no device {ordinal}: the runtime has {count}, numbered from 0")]
    NoSuchDevice {
        /// The ordinal that was requested.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// There is no GPU.
    #[error("no GPU: {reason}")]
    NoGpu {
        /// The reason in one line: no library, no driver, or no device.
        reason: String,
    },
    /// Migrations cannot be recorded or counted.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Profile(#[from] cuda_um::profile::ProfileError),
    /// A launcher of um-kernels refused its arguments.
    #[cfg(feature = "kernels")]
    #[error(transparent)]
    Kernel(um_kernels::KernelError),
    /// The cost model of this machine is not available.
    #[cfg(feature = "calibrate")]
    #[error(transparent)]
    Calibrate(#[from] um_kernels::calibrate::CalibrateError),
    /// An environment variable has a value that its documentation does not list.
    #[error("{name}={value}: expected {expected}")]
    InvalidSetting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// A reader or a writer of the caller failed, in the middle of a copy.
    #[error("{call}: after {done_bytes} of {total_bytes} bytes: {source}")]
    Io {
        /// The function of this crate.
        call: &'static str,
        /// The bytes that were read or written before the failure.
        done_bytes: usize,
        /// The bytes of the range.
        total_bytes: usize,
        /// The error of the reader or the writer.
        source: std::io::Error,
    },
    /// Any other error of the safe layer below.
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
        matches!(self, Self::Cuda(error) if error.is_sticky())
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
            Below::DeviceOutOfRange { ordinal, count } => Self::NoSuchDevice {
                ordinal: ordinal as usize,
                count,
            },
            none @ (Below::Load(_) | Below::NoDriver { .. } | Below::NoDevice { .. }) => {
                Self::NoGpu {
                    reason: no_gpu(&none, cfg!(feature = "sim")),
                }
            }
            Below::Other(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::Cuda(Below::Other(error)),
            },
            other => Self::Cuda(other),
        }
    }
}

/// For the functions that a guard of `cuda_um` calls. The conversion back gives the same error.
impl From<CudaError> for cuda_um::Error {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::Cuda(error) => error,
            other => Self::Other(Box::new(other)),
        }
    }
}

/// The reason, and the way to run without a GPU if this build does not have it.
fn no_gpu(none: &cuda_um::Error, has_simulator: bool) -> String {
    let reason = one_line(none);
    match has_simulator {
        true => reason,
        false => format!(
            "{reason}; um-backend with the feature `sim` has a simulator, which needs no GPU"
        ),
    }
}

#[cfg(feature = "kernels")]
impl From<um_kernels::KernelError> for CudaError {
    fn from(error: um_kernels::KernelError) -> Self {
        match error {
            um_kernels::KernelError::Cuda(error) => error.into(),
            other => Self::Kernel(other),
        }
    }
}

/// The same text as [`Display`](std::fmt::Display): `fn main() -> Result<(), CudaError>` prints this one.
impl std::fmt::Debug for CudaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
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
            "out of memory: cudaMalloc: device buffer: 10 bytes requested, 4 free of 8; drop buffers, or request less memory"
        );
        let none = CudaError::from(cuda_um::Error::NoDevice {
            call: "cudaGetDeviceCount",
        });
        assert!(
            matches!(&none, CudaError::NoGpu { reason } if reason.contains("cudaGetDeviceCount")),
            "{none}"
        );
        let none = cuda_um::Error::NoDevice {
            call: "cudaGetDeviceCount",
        };
        assert!(
            no_gpu(&none, false).ends_with("the feature `sim` has a simulator, which needs no GPU")
        );
        assert!(!no_gpu(&none, true).contains("sim"));
        let forked = CudaError::from(cuda_um::Error::Forked { call: "cudaFree" });
        assert!(forked.is_sticky() && forked.to_string().contains("fork"));
        let back = CudaError::from(cuda_um::Error::from(CudaError::NoSuchDevice {
            ordinal: 7,
            count: 2,
        }));
        assert!(
            matches!(back, CudaError::NoSuchDevice { ordinal: 7, .. }),
            "{back}"
        );
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
