//! New arrays.
#![allow(unsafe_code, reason = "reads the memory of NumPy arrays")]

use std::ops::Range;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use um_backend::{CudaBackend, DType, ErasedBuffer, SharedBuffer};

use crate::array::{Array, count, extents, kind};
use crate::backend::backend;
use crate::errors::{argument, without_lock};
use crate::number::Number;
use crate::outside::{Outside, Words};
use crate::owner::Kept;
use crate::{dlpack, dtype, host, ops, outside, profile};

/// Returns an array of zeros.
///
/// `kind` is "unified" (the CPU and the GPU use one address), "device", "pinned" or "host". `name` is the array's name in profiles; without it, the
/// array has the file and the line of the call.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=Number(0), kind=Words::from("unified"), name=None), text_signature = "(shape, dtype=\"float32\", device=0, kind=\"unified\", name=None)")]
pub(crate) fn zeros(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Number<usize>,
    kind: Words,
    name: Option<Words>,
) -> PyResult<Array> {
    make(
        shape,
        dtype,
        device.0,
        &kind.0,
        name.map(|name| name.0),
        |backend, kind, dtype, len| backend.create_erased(kind, dtype, len),
    )
}

/// Returns an array with arbitrary contents, for a call that writes all elements. The arguments are those of `zeros`.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=Number(0), kind=Words::from("unified"), name=None), text_signature = "(shape, dtype=\"float32\", device=0, kind=\"unified\", name=None)")]
pub(crate) fn empty(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Number<usize>,
    kind: Words,
    name: Option<Words>,
) -> PyResult<Array> {
    make(
        shape,
        dtype,
        device.0,
        &kind.0,
        name.map(|name| name.0),
        |backend, kind, dtype, len| {
            // SAFETY: the memory is the driver's, so the compiler knows nothing of its contents, and every bit pattern is a value of each type.
            // A program that reads it finds values of no meaning, as with NumPy's `empty`.
            unsafe { backend.create_erased_uninit(kind, dtype, len) }
        },
    )
}

fn make(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: usize,
    word: &str,
    name: Option<String>,
    allocate: impl FnOnce(
        &CudaBackend,
        um_backend::BufferKind,
        DType,
        usize,
    ) -> um_backend::Result<ErasedBuffer>
    + Send,
) -> PyResult<Array> {
    let py = shape.py();
    let shape = extents(shape)?;
    let dtype = dtype.map_or(Ok(DType::F32), dtype::dtype)?;
    let len = count(&shape, dtype.size_bytes()).map_err(argument)?;
    let (kind, word) = kind(word)?;
    let backend = backend(py, device)?;
    let name = named(py, name)?;
    let buffer = without_lock(py, || allocate(&backend, kind, dtype, len))?;
    Ok(finish(buffer, shape, word, backend, name))
}

pub(crate) fn finish(
    mut buffer: ErasedBuffer,
    shape: Vec<usize>,
    kind: &'static str,
    backend: CudaBackend,
    name: Option<String>,
) -> Array {
    if let Some(name) = &name {
        buffer.bytes_mut().set_name(name);
    }
    let buffer = Kept::new(SharedBuffer::new(buffer));
    Array {
        buffer,
        shape,
        kind,
        name: Mutex::new(name),
        read_only: false,
        imported: false,
        backend,
    }
}

/// The name of a new array in profiles, which show a name that the program gave with the line of the call.
pub(crate) fn named(py: Python<'_>, name: Option<String>) -> PyResult<Option<String>> {
    let site = caller(py)?;
    match (name, site) {
        (Some(name), Some(site)) => {
            profile::note(&name, &site);
            Ok(Some(name))
        }
        (name, site) => Ok(name.or(site)),
    }
}

/// The file and the line of the call in Python, if there is one. Runs no code of the program, whose exceptions would be lost.
pub(crate) fn caller(py: Python<'_>) -> PyResult<Option<String>> {
    let Some(frame) = outside::frame(py) else {
        return Ok(None);
    };
    let file = frame.attribute(c"f_code")?.attribute(c"co_filename")?;
    let file = outside::words(file.cast::<PyString>()?)?;
    let file = file.rsplit('/').next().unwrap_or(&file);
    let line = frame.attribute(c"f_lineno")?.extract::<u32>().ok();
    Ok(line.map(|line| format!("{file}:{line}")))
}

/// Returns a copy of a NumPy array, or of what `numpy.asarray` takes, in new memory. The other arguments are those of `zeros`.
#[pyfunction]
#[pyo3(signature = (array, device=Number(0), kind=Words::from("unified"), name=None), text_signature = "(array, device=0, kind=\"unified\", name=None)")]
pub(crate) fn from_numpy(
    array: &Bound<'_, PyAny>,
    device: Number<usize>,
    kind: Words,
    name: Option<Words>,
) -> PyResult<Array> {
    let py = array.py();
    let name = named(py, name.map(|name| name.0))?;
    copy_of_numpy(array, device.0, &kind.0, name)
}

fn copy_of_numpy(
    array: &Bound<'_, PyAny>,
    device: usize,
    word: &str,
    name: Option<String>,
) -> PyResult<Array> {
    let py = array.py();
    let (kind, word) = kind(word)?;
    let backend = backend(py, device)?;
    // After all code of Python, which could resize the array.
    let elements = Elements::of_numpy(array)?;
    let buffer = without_lock(py, || {
        backend.create_erased_from(kind, elements.dtype, elements.bytes())
    })?;
    Ok(finish(buffer, elements.shape.clone(), word, backend, name))
}

/// Returns a new array with a copy of `obj`: an array of this package or of another library (through DLPack, on the CPU or on the GPU), or what
/// `numpy.asarray` takes, such as a list. The other arguments are those of `zeros`; without `dtype` it is the object's own.
#[pyfunction]
#[pyo3(signature = (obj, dtype=None, device=Number(0), kind=Words::from("unified"), name=None), text_signature = "(obj, dtype=None, device=0, kind=\"unified\", name=None)")]
pub(crate) fn array(
    obj: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Number<usize>,
    kind: Words,
    name: Option<Words>,
) -> PyResult<Array> {
    let py = obj.py();
    refuse_masked(obj)?;
    let name = named(py, name.map(|name| name.0))?;
    let is_theirs = !obj.is_of(ndarray(py)?)? && obj.has(c"__dlpack__")?;
    let source = match obj.cast::<Array>() {
        Ok(own) => Some(own.clone()),
        Err(_) if is_theirs => Some(Bound::new(py, dlpack::from_dlpack(obj, None)?)?),
        Err(_) => None,
    };
    let wanted = dtype.map(dtype::dtype).transpose()?;
    match source {
        Some(source) if wanted.is_none_or(|wanted| wanted == source.get().dtype_of()) => {
            let (kind, word) = self::kind(&kind.0)?;
            let backend = backend(py, device.0)?;
            let from = source.get();
            // SAFETY: the copy below writes all of it; every bit pattern is a value of each type.
            let make = || unsafe {
                backend.create_erased_uninit(kind, from.dtype_of(), from.storage().len())
            };
            let buffer = without_lock(py, make)?;
            let array = finish(buffer, from.shape.clone(), word, backend.clone(), name);
            ops::copy(&array, py, source.as_any())?;
            Ok(array)
        }
        other => {
            let converted = match (other, wanted) {
                (Some(source), Some(wanted)) => {
                    host::array(source, Some(dtype::to_numpy(py, wanted)?), None)?
                }
                (_, wanted) => {
                    let convert = outside::import(py, c"numpy")?.attribute(c"asarray")?;
                    match wanted {
                        Some(wanted) => convert.run([obj, &dtype::to_numpy(py, wanted)?])?,
                        None => convert.run([obj])?,
                    }
                }
            };
            copy_of_numpy(&converted, device.0, &kind.0, name)
        }
    }
}

/// Refuses an array with a mask, which would be lost.
pub(crate) fn refuse_masked(value: &Bound<'_, PyAny>) -> PyResult<()> {
    let masked = outside::import(value.py(), c"numpy.ma")?.attribute(c"MaskedArray")?;
    match value.is_of(&masked)? {
        false => Ok(()),
        true => Err(argument(
            "a masked array has a mask, which would be lost: pass `array.filled(value)`, or `array.data` for all elements",
        )),
    }
}

/// NumPy's class of arrays, whose attributes no program can change. That of the first import of this package: later a program may replace it.
pub(crate) fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let class = outside::import(py, c"numpy")?.attribute(c"ndarray")?;
        Ok::<_, PyErr>(class.unbind())
    });
    Ok(class?.bind(py))
}

/// The address of a NumPy array that has so many bytes in one piece. The array is what a function of NumPy returned, which a program may replace.
pub(crate) fn address(array: &Bound<'_, PyAny>, bytes: usize) -> PyResult<usize> {
    let class = ndarray(array.py())?;
    let has_bytes = || Ok::<_, PyErr>(array.attribute(c"nbytes")?.extract::<usize>()? == bytes);
    // A subclass may say anything of its memory.
    let is_whole = array.get_type().is(class)
        && array
            .attribute(c"flags")?
            .attribute(c"c_contiguous")?
            .extract()?
        && has_bytes()?;
    let address = match is_whole {
        true => {
            let interface = array.attribute(c"__array_interface__")?;
            interface.key("data")?.item(0)?.extract()?
        }
        false => 0,
    };
    // Again: the garbage collector runs within the calls above, and code that it runs may resize the array. It does not run in this last one.
    match is_whole && has_bytes()? {
        true => Ok(address),
        false => Err(argument(format!(
            "NumPy must give a numpy.ndarray with {bytes} bytes in one piece, and gave another {}",
            array.get_type()
        ))),
    }
}

/// The elements of a NumPy array, which lives as long.
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    address: usize,
    bytes: usize,
    _array: Py<PyAny>,
}

impl Elements {
    pub(crate) fn of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = value.py();
        refuse_masked(value)?;
        // Not `ascontiguousarray`, which gives a number one extent.
        let convert = outside::import(py, c"numpy")?.attribute(c"asarray")?;
        let none = py.None().into_bound(py);
        let array = convert.run([value, &none, outside::string(py, "C")?.as_any()])?;
        let dtype = dtype::of_numpy(&array.attribute(c"dtype")?)?;
        let shape: Vec<usize> = array.attribute(c"shape")?.extract()?;
        let bytes = count(&shape, dtype.size_bytes()).map_err(argument)? * dtype.size_bytes();
        Ok(Self {
            dtype,
            shape,
            address: address(&array, bytes)?,
            bytes,
            _array: array.unbind(),
        })
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.bytes / self.dtype.size_bytes()
    }

    /// The addresses of the elements.
    pub(crate) fn span(&self) -> Range<usize> {
        self.address..self.address + self.bytes
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: it is an array of NumPy itself, and no subclass: it has these bytes at this address, in one piece, and the reference keeps it
        // alive. As for each call of NumPy that releases Python's lock, other threads must neither write nor resize the array meanwhile.
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.bytes)
        }
    }
}
