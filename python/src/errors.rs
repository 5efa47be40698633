//! Errors as the exceptions of `cuda_um._errors`.

use std::io::{self, ErrorKind};
use std::path::Path;

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use um_backend::CudaError;
use um_backend::cuda_um::ErrorKind as Cause;
use um_backend::profile::ProfileError;
use um_backend::sim::SimError;
use um_weights::printable;

use crate::outside::{self, Outside};

/// The exceptions, by name.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    OutOfMemory,
    Argument,
    InUse,
    DLPack,
    Device,
    File,
    MissingFile,
    FilePermission,
    Folder,
}

/// Loads the exceptions, so that those of the first import are raised, also after a reload and at the end of the interpreter.
pub(crate) fn load(py: Python<'_>) -> PyResult<()> {
    let kinds = [
        Kind::OutOfMemory,
        Kind::Argument,
        Kind::InUse,
        Kind::DLPack,
        Kind::Device,
        Kind::File,
        Kind::MissingFile,
        Kind::FilePermission,
        Kind::Folder,
    ];
    kinds
        .into_iter()
        .try_for_each(|kind| kind.class(py).map(drop))
}

impl Kind {
    fn class(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 9] = [const { PyOnceLock::new() }; 9];
        let name = match self {
            Self::OutOfMemory => c"OutOfMemoryError",
            Self::Argument => c"ArgumentError",
            Self::InUse => c"InUseError",
            Self::DLPack => c"DLPackError",
            Self::Device => c"DeviceError",
            Self::File => c"FileError",
            Self::MissingFile => c"MissingFileError",
            Self::FilePermission => c"FilePermissionError",
            Self::Folder => c"FolderError",
        };
        let class = CLASSES[self as usize].get_or_try_init(py, || {
            let class = outside::import(py, c"cuda_um._errors")?.attribute(name)?;
            Ok::<_, PyErr>(class.cast_into()?.unbind())
        });
        Ok(class?.bind(py))
    }
}

/// An error of this package.
pub(crate) fn error(kind: Kind, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| match kind.class(py) {
        Ok(class) => made(class, &message),
        Err(missing) => missing,
    })
}

/// The system's error of a file, with its number and its name as Python's own have them.
pub(crate) fn of_system(source: &io::Error, file: &Path, message: &str) -> PyErr {
    const EISDIR: i32 = 21;
    const EINVAL: i32 = 22;
    const EIO: i32 = 5;
    let kind = match source.kind() {
        ErrorKind::NotFound => Kind::MissingFile,
        ErrorKind::PermissionDenied => Kind::FilePermission,
        ErrorKind::IsADirectory => Kind::Folder,
        _ => Kind::File,
    };
    let number = source.raw_os_error().unwrap_or(match source.kind() {
        ErrorKind::InvalidInput => EINVAL,
        ErrorKind::IsADirectory => EISDIR,
        _ => EIO,
    });
    // Python adds the name.
    let start = format!("{}: ", printable(&file.to_string_lossy()));
    let message = message.strip_prefix(&*start).unwrap_or(message);
    let message = message.trim_end_matches(&*format!(" (os error {number})"));
    Python::attach(|py| {
        let raised = || {
            let file = outside::path(py, file)?;
            let number = outside::int(py, number.unsigned_abs().into())?;
            let message = outside::string(py, message)?;
            kind.class(py)?.run([&number, message.as_any(), &file])
        };
        raised().map_or_else(|missing| missing, PyErr::from_value)
    })
}

/// An error of Python.
pub(crate) fn of_python<E: PyTypeInfo>(py: Python<'_>, message: &str) -> PyErr {
    made(&py.get_type::<E>(), message)
}

/// Makes the exception now: without memory for it, PyO3 panics when it makes it later.
fn made(class: &Bound<'_, PyType>, message: &str) -> PyErr {
    // It may have names of a file.
    let message = outside::string(class.py(), &printable(message));
    let raised = message.and_then(|message| class.run([message.as_any()]));
    raised.map_or_else(|missing| missing, PyErr::from_value)
}

/// A refused argument.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    error(Kind::Argument, message)
}

/// A refused argument, if Python refused the value. Other errors, such as an interrupt, stay.
pub(crate) fn refusal(refused: PyErr, message: impl FnOnce(&str) -> PyResult<String>) -> PyErr {
    refusal_as(Kind::Argument, refused, message)
}

/// An error of this package, if Python refused a value. It keeps Python's error as its cause: that may be one of the program.
pub(crate) fn refusal_as(
    kind: Kind,
    refused: PyErr,
    message: impl FnOnce(&str) -> PyResult<String>,
) -> PyErr {
    Python::attach(|py| {
        if !is_refused(py, &refused) {
            return refused;
        }
        match text(refused.value(py).as_any()).and_then(|reason| message(&reason)) {
            Ok(message) => {
                let raised = error(kind, message);
                raised.set_cause(py, Some(refused));
                raised
            }
            Err(interrupt) => interrupt,
        }
    })
}

/// Whether Python refused a value.
pub(crate) fn is_refused(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
}

/// A value in a message. Python runs its signal handlers here, whose exceptions must not be lost, and look like those of the value. So both are
/// passed on.
pub(crate) fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    outside::words(&value.text()?)
}

/// Errors of the library as exceptions with their messages.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for um_backend::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|refused| of_cuda(&refused, ""))
    }
}

/// An error of the library as an exception, whose message begins with `what`.
pub(crate) fn of_cuda(refused: &CudaError, what: &str) -> PyErr {
    error(kind(refused), format!("{what}{}", message(refused)))
}

impl<T> OrRaise<T> for um_dlpack::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|refused| match refused {
            um_dlpack::Error::Backend(refused) => of_cuda(&refused, ""),
            um_dlpack::Error::DeviceOrdinal { found, expected } => error(
                Kind::DLPack,
                format!(
                    "the tensor is on CUDA device {found}, and not on device {expected}: pass an array whose `__dlpack_device__` says so, and not its capsule"
                ),
            ),
            // Only this reason names a function.
            other => error(Kind::DLPack, other.to_string().replace("a host guard", "`numpy()`")),
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
        CudaError::Foreign { .. } => Kind::DLPack,
        _ if is_second_profile(refused) => Kind::InUse,
        _ if wrong_environment(refused).is_some() => Kind::Argument,
        refused => match refused.kind() {
            Cause::OutOfMemory => Kind::OutOfMemory,
            Cause::InvalidArgument => Kind::Argument,
            Cause::Busy => Kind::InUse,
            _ => Kind::Device,
        },
    }
}

/// Whether a profile was running already.
fn is_second_profile(refused: &CudaError) -> bool {
    let CudaError::Other(other) = refused else {
        return false;
    };
    matches!(other.downcast_ref(), Some(ProfileError::AlreadyRunning))
}

/// The simulator's error for a variable of the environment.
fn wrong_environment(refused: &CudaError) -> Option<&SimError> {
    let CudaError::Other(other) = refused else {
        return None;
    };
    let found: Option<&SimError> = other.downcast_ref();
    found.filter(|error| matches!(error, SimError::Environment { .. }))
}

/// The message: that of the library, unless it names functions that Python does not have.
pub(crate) fn message(refused: &CudaError) -> String {
    match refused {
        CudaError::WouldDeadlock { .. } => {
            "the array is in use by a `numpy()` block of this thread: leave the block first"
                .to_owned()
        }
        _ if is_second_profile(refused) => {
            "a block of `cuda_um.profile()` is open, and a process has one at a time: leave it first"
                .to_owned()
        }
        CudaError::Busy { what, .. } if what.ends_with(": the storage") => {
            "the array is in use by a `numpy()` block of this thread: leave the block first"
                .to_owned()
        }
        CudaError::Busy { what, .. } => format!(
            "{what} is in use by a `numpy()` block of an array of unified memory: leave the block first"
        ),
        CudaError::ReadOnly { what } => {
            format!("{what} was imported read-only: copy it to an own array first, with `copy_`")
        }
        CudaError::OutOfMemory {
            subject,
            requested_bytes,
            free_bytes,
            total_bytes,
            call,
        } => {
            let subject = match call.starts_with("cuda") {
                true => format!("{call}: {subject}"),
                false => subject.clone(),
            };
            // A setting of the Rust library.
            let subject = match subject.split_once(", which needs oversubscription") {
                Some((subject, _)) => subject.to_owned(),
                None => subject,
            };
            format!(
                "out of memory: {subject}: {requested_bytes} bytes requested, {free_bytes} free of {total_bytes}; drop arrays, or request less memory"
            )
        }
        other => {
            let text = other.to_string();
            match text.split_once(": ") {
                Some((call, rest)) if call.contains("::") => rest.to_owned(),
                _ => text,
            }
        }
    }
}
