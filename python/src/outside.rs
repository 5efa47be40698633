//! Calls of Python, in which the program's own code may run: methods of its classes, its replacements of NumPy's functions, its finalizers.
//!
//! Before Python 3.14 the end of the interpreter ends a thread within such code by an unwind, which PyO3's functions turn into an abort. Here the
//! thread stops for good instead, as it does in later versions, and in PyO3 where it takes the interpreter's lock. Nothing of PyO3's that makes an
//! object is used where it panics without memory: each function here returns a `MemoryError`.
#![allow(unsafe_code, reason = "calls Python's C functions")]

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use pyo3::exceptions::PyAttributeError;
use pyo3::ffi::{self, Py_ssize_t, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

/// Python's functions, out of which a thread may unwind.
mod raw {
    use std::ffi::{c_char, c_double, c_int};

    use super::{Py_ssize_t, PyObject};

    unsafe extern "C-unwind" {
        pub(super) fn PyImport_ImportModule(name: *const c_char) -> *mut PyObject;
        pub(super) fn PyObject_GetAttrString(
            of: *mut PyObject,
            name: *const c_char,
        ) -> *mut PyObject;
        pub(super) fn PyObject_Call(
            function: *mut PyObject,
            arguments: *mut PyObject,
            named: *mut PyObject,
        ) -> *mut PyObject;
        pub(super) fn PyObject_Str(of: *mut PyObject) -> *mut PyObject;
        pub(super) fn PyObject_Repr(of: *mut PyObject) -> *mut PyObject;
        pub(super) fn PyObject_IsTrue(of: *mut PyObject) -> c_int;
        pub(super) fn PyObject_IsInstance(of: *mut PyObject, class: *mut PyObject) -> c_int;
        pub(super) fn PyObject_Size(of: *mut PyObject) -> Py_ssize_t;
        pub(super) fn PyObject_GetItem(of: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
        pub(super) fn PyNumber_Index(of: *mut PyObject) -> *mut PyObject;
        pub(super) fn PyFloat_AsDouble(of: *mut PyObject) -> c_double;
        pub(super) fn PyTuple_New(len: Py_ssize_t) -> *mut PyObject;
        pub(super) fn PyDict_New() -> *mut PyObject;
    }
}

/// Stops its thread when it is dropped, which is only in the unwind. The thread does not have the interpreter's lock then.
struct Stops;

impl Drop for Stops {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs a function of `raw`.
fn stopping<R>(call: impl FnOnce() -> R) -> R {
    let stops = Stops;
    let result = call();
    std::mem::forget(stops);
    result
}

/// Python's object, or its error.
fn owned<'py>(
    py: Python<'py>,
    call: impl FnOnce() -> *mut PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    let raw = stopping(call);
    // SAFETY: the functions of `raw` return a new reference, or null with an error.
    unsafe { Bound::from_owned_ptr_or_err(py, raw) }
}

/// Python's number, or its error if the number is -1.
fn number<N: PartialEq + From<i8>>(py: Python<'_>, call: impl FnOnce() -> N) -> PyResult<N> {
    let result = stopping(call);
    match result == N::from(-1) {
        true => PyErr::take(py).map_or(Ok(result), Err),
        false => Ok(result),
    }
}

pub(crate) fn import<'py>(py: Python<'py>, name: &CStr) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the thread has the interpreter's lock, as in each function here that has a `Python` or a `Bound`.
    owned(py, || unsafe { raw::PyImport_ImportModule(name.as_ptr()) })
}

/// The frame of the program that calls this library; none if no code of Python does.
pub(crate) fn frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: returns a reference of the thread, or null.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }
}

pub(crate) fn string<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, text.as_bytes())
}

/// Runs work in which code of Python may run, beside an exception that the program raises now, if any: it must not find one.
pub(crate) fn aside<T>(_py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let (mut class, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
    // SAFETY: three places, each for a reference or null.
    unsafe { ffi::PyErr_Fetch(&mut class, &mut value, &mut trace) };
    let result = work();
    // SAFETY: takes the references back.
    unsafe { ffi::PyErr_Restore(class, value, trace) };
    result
}

/// A path as Python's own functions have it.
pub(crate) fn path<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    let bytes = path.as_os_str().as_bytes();
    let (start, len) = (bytes.as_ptr().cast(), bytes.len() as Py_ssize_t);
    // SAFETY: so many bytes; returns a new reference, or null with an error.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_DecodeFSDefaultAndSize(start, len)) }
}

/// The words of a string. Halves of characters become escapes.
pub(crate) fn words(string: &Bound<'_, PyString>) -> PyResult<String> {
    let (encoding, errors) = (c"utf-8".as_ptr(), c"backslashreplace".as_ptr());
    // SAFETY: a string and two names; returns a new reference, or null with an error.
    let bytes = unsafe {
        let raw = ffi::PyUnicode_AsEncodedString(string.as_ptr(), encoding, errors);
        Bound::from_owned_ptr_or_err(string.py(), raw)
    }?;
    Ok(String::from_utf8_lossy(bytes.cast::<PyBytes>()?.as_bytes()).into_owned())
}

/// A string as an argument. As words, it is never refused for its characters.
pub(crate) struct Words(pub(crate) String);

impl From<&str> for Words {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl<'py> FromPyObject<'_, 'py> for Words {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let string = value.cast::<PyString>()?;
        words(&string).map(Self)
    }
}

pub(crate) fn int(py: Python<'_>, value: u64) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: returns a new reference, or null with an error.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromUnsignedLongLong(value)) }
}

pub(crate) fn tuple<'py>(
    py: Python<'py>,
    items: impl IntoIterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let items = items.into_iter().collect::<PyResult<Vec<_>>>()?;
    // SAFETY: a length.
    let tuple = owned(py, || unsafe {
        raw::PyTuple_New(items.len() as Py_ssize_t)
    })?;
    for (index, item) in items.into_iter().enumerate() {
        // SAFETY: the tuple is new, has the index, and takes the reference.
        unsafe { ffi::PyTuple_SetItem(tuple.as_ptr(), index as Py_ssize_t, item.into_ptr()) };
    }
    Ok(tuple.cast_into()?)
}

/// The extents of an array.
pub(crate) fn shape<'py>(py: Python<'py>, extents: &[usize]) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, extents.iter().map(|extent| int(py, *extent as u64)))
}

pub(crate) fn dict<'py, const N: usize>(
    py: Python<'py>,
    items: [(&CStr, Bound<'py, PyAny>); N],
) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: the thread has the interpreter's lock.
    let dict = owned(py, || unsafe { raw::PyDict_New() })?.cast_into::<PyDict>()?;
    for (name, value) in items {
        // SAFETY: a dictionary, a name and a value, whose reference the dictionary copies.
        match unsafe { ffi::PyDict_SetItemString(dict.as_ptr(), name.as_ptr(), value.as_ptr()) } {
            0 => {}
            _ => return Err(PyErr::fetch(py)),
        }
    }
    Ok(dict)
}

/// What other code does to an object.
pub(crate) trait Outside<'py> {
    fn attribute(&self, name: &CStr) -> PyResult<Bound<'py, PyAny>>;
    fn has(&self, name: &CStr) -> PyResult<bool>;
    fn run<const N: usize>(
        &self,
        arguments: [&Bound<'py, PyAny>; N],
    ) -> PyResult<Bound<'py, PyAny>>;
    fn run_named(&self, named: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>>;
    fn text(&self) -> PyResult<Bound<'py, PyString>>;
    fn shown(&self) -> PyResult<Bound<'py, PyString>>;
    fn is_true(&self) -> PyResult<bool>;
    fn is_of(&self, class: &Bound<'py, PyAny>) -> PyResult<bool>;
    fn length(&self) -> PyResult<usize>;
    fn item(&self, index: usize) -> PyResult<Bound<'py, PyAny>>;
    fn key(&self, key: &str) -> PyResult<Bound<'py, PyAny>>;
    /// The whole number that it means, an `int`.
    fn index(&self) -> PyResult<Bound<'py, PyAny>>;
    fn float(&self) -> PyResult<f64>;
}

impl<'py> Outside<'py> for Bound<'py, PyAny> {
    fn attribute(&self, name: &CStr) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: an object and a name.
        owned(self.py(), || unsafe {
            raw::PyObject_GetAttrString(self.as_ptr(), name.as_ptr())
        })
    }

    fn has(&self, name: &CStr) -> PyResult<bool> {
        match self.attribute(name) {
            Ok(_) => Ok(true),
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn run<const N: usize>(
        &self,
        arguments: [&Bound<'py, PyAny>; N],
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = tuple(self.py(), arguments.map(|argument| Ok(argument.clone())))?;
        // SAFETY: an object, a tuple, and no dictionary.
        owned(self.py(), || unsafe {
            raw::PyObject_Call(self.as_ptr(), arguments.as_ptr(), std::ptr::null_mut())
        })
    }

    fn run_named(&self, named: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = tuple(self.py(), [])?;
        // SAFETY: an object, a tuple and a dictionary.
        owned(self.py(), || unsafe {
            raw::PyObject_Call(self.as_ptr(), arguments.as_ptr(), named.as_ptr())
        })
    }

    fn text(&self) -> PyResult<Bound<'py, PyString>> {
        // SAFETY: an object.
        let text = owned(self.py(), || unsafe { raw::PyObject_Str(self.as_ptr()) })?;
        Ok(text.cast_into()?)
    }

    fn shown(&self) -> PyResult<Bound<'py, PyString>> {
        // SAFETY: an object.
        let text = owned(self.py(), || unsafe { raw::PyObject_Repr(self.as_ptr()) })?;
        Ok(text.cast_into()?)
    }

    fn is_true(&self) -> PyResult<bool> {
        // SAFETY: an object.
        let is_true = number(self.py(), || unsafe { raw::PyObject_IsTrue(self.as_ptr()) });
        Ok(is_true? == 1)
    }

    fn is_of(&self, class: &Bound<'py, PyAny>) -> PyResult<bool> {
        // SAFETY: two objects.
        let is_of = number(self.py(), || unsafe {
            raw::PyObject_IsInstance(self.as_ptr(), class.as_ptr())
        });
        Ok(is_of? == 1)
    }

    fn length(&self) -> PyResult<usize> {
        // SAFETY: an object.
        let length = number(self.py(), || unsafe { raw::PyObject_Size(self.as_ptr()) })?;
        Ok(length as usize)
    }

    fn item(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let index = int(self.py(), index as u64)?;
        // SAFETY: two objects.
        owned(self.py(), || unsafe {
            raw::PyObject_GetItem(self.as_ptr(), index.as_ptr())
        })
    }

    fn key(&self, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let key = string(self.py(), key)?;
        // SAFETY: two objects.
        owned(self.py(), || unsafe {
            raw::PyObject_GetItem(self.as_ptr(), key.as_ptr())
        })
    }

    fn index(&self) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: an object.
        owned(self.py(), || unsafe { raw::PyNumber_Index(self.as_ptr()) })
    }

    fn float(&self) -> PyResult<f64> {
        // SAFETY: an object.
        number(self.py(), || unsafe {
            raw::PyFloat_AsDouble(self.as_ptr())
        })
    }
}
