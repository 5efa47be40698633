//! Errors as the exceptions of `cuda_um._errors`.

use pyo3::exceptions::{PyException, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use um_backend::{CudaError, cuda_um::Error};

/// The exceptions, by name.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    OutOfMemory,
    Argument,
    InUse,
    DLPack,
    Device,
}

impl Kind {
    fn class(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 5] = [const { PyOnceLock::new() }; 5];
        let name = match self {
            Self::OutOfMemory => "OutOfMemoryError",
            Self::Argument => "ArgumentError",
            Self::InUse => "InUseError",
            Self::DLPack => "DLPackError",
            Self::Device => "DeviceError",
        };
        CLASSES[self as usize].import(py, "cuda_um._errors", name)
    }
}

/// An error of this package.
pub(crate) fn error(kind: Kind, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| match kind.class(py) {
        Ok(class) => PyErr::from_type(class.clone(), message),
        Err(missing) => missing,
    })
}

/// A refused argument.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    error(Kind::Argument, message)
}

/// A refused argument, if Python refused the value. Other errors, such as an interrupt, stay.
pub(crate) fn refusal(error: PyErr, message: impl FnOnce(&str) -> PyResult<String>) -> PyErr {
    Python::attach(|py| match is_refused(py, &error) {
        true => text(error.value(py).as_any())
            .and_then(|reason| message(&reason))
            .map_or_else(|interrupt| interrupt, argument),
        false => error,
    })
}

/// Whether Python refused a value.
pub(crate) fn is_refused(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
}

/// A value in a message. Python runs its signal handlers here, so that the error may be an interrupt, which must not be lost.
pub(crate) fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.str() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        Err(error) if error.is_instance_of::<PyException>(value.py()) => {
            Ok(format!("<{} object>", value.get_type().name()?))
        }
        Err(interrupt) => Err(interrupt),
    }
}

/// Errors of the library as exceptions with their messages.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for um_backend::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|refused| error(kind(&refused), refused.to_string()))
    }
}

impl<T> OrRaise<T> for um_dlpack::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|refused| match refused {
            um_dlpack::Error::Backend(refused) => error(kind(&refused), refused.to_string()),
            other => error(Kind::DLPack, other.to_string()),
        })
    }
}

/// Runs work of the library without Python's lock.
pub(crate) fn without_lock<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> um_backend::Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).or_raise()
}

fn kind(refused: &CudaError) -> Kind {
    match refused {
        CudaError::OutOfMemory { .. } => Kind::OutOfMemory,
        CudaError::WouldDeadlock { .. } | CudaError::StorageInUse { .. } => Kind::InUse,
        CudaError::DTypeMismatch { .. }
        | CudaError::ErasedMismatch { .. }
        | CudaError::NoSuchDevice { .. }
        | CudaError::InvalidSetting { .. }
        | CudaError::Cuda(
            Error::InvalidArgument { .. }
            | Error::LengthMismatch { .. }
            | Error::RangeOutOfBounds { .. }
            | Error::TooLarge { .. }
            | Error::LimitExceeded { .. }
            | Error::DeviceMismatch { .. }
            | Error::RuntimeMismatch { .. },
        ) => Kind::Argument,
        CudaError::Cuda(Error::ReadOnly { .. }) => Kind::Argument,
        CudaError::Cuda(Error::Foreign { .. }) => Kind::DLPack,
        _ => Kind::Device,
    }
}
