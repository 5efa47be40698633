//! New arrays.
#![allow(unsafe_code, reason = "reads the memory of NumPy arrays")]

use pyo3::prelude::*;
use um_backend::{CudaBackend, DType, ErasedBuffer, SharedBuffer};
use um_dlpack::DlpackBuffer;

use crate::array::{Array, count, extents, kind};
use crate::backend::backend;
use crate::dtype;
use crate::errors::{argument, without_lock};

/// Returns an array of zeros.
///
/// `kind` is "unified" (the CPU and the GPU use one address), "device", "pinned" or "host". `name` is the array's name in profiles; without it, the
/// array has the file and the line of the call.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=0, kind="unified", name=None), text_signature = "(shape, dtype=\"float32\", device=0, kind=\"unified\", name=None)")]
pub(crate) fn zeros(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: usize,
    kind: &str,
    name: Option<String>,
) -> PyResult<Array> {
    make(
        shape,
        dtype,
        device,
        kind,
        name,
        |backend, kind, dtype, len| backend.create_erased(kind, dtype, len),
    )
}

/// Returns an array with arbitrary contents, for a call that writes all elements. The arguments are those of `zeros`.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=0, kind="unified", name=None), text_signature = "(shape, dtype=\"float32\", device=0, kind=\"unified\", name=None)")]
pub(crate) fn empty(
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: usize,
    kind: &str,
    name: Option<String>,
) -> PyResult<Array> {
    make(
        shape,
        dtype,
        device,
        kind,
        name,
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
    let (len, (kind, word)) = (count(&shape)?, kind(word)?);
    let dtype = dtype.map_or(Ok(DType::F32), dtype::dtype)?;
    let backend = backend(py, device)?;
    let name = name.or_else(|| caller(py));
    let buffer = without_lock(py, || allocate(&backend, kind, dtype, len))?;
    Ok(finish(buffer, shape, word, backend, name, false))
}

pub(crate) fn finish(
    mut buffer: ErasedBuffer,
    shape: Vec<usize>,
    kind: &'static str,
    backend: CudaBackend,
    name: Option<String>,
    read_only: bool,
) -> Array {
    if let Some(name) = name {
        buffer.set_name(&name);
    }
    let buffer = DlpackBuffer::new(SharedBuffer::new(buffer));
    Array {
        buffer,
        shape,
        kind,
        read_only,
        backend,
    }
}

/// The file and the line of the call in Python.
pub(crate) fn caller(py: Python<'_>) -> Option<String> {
    let frame = py
        .import("sys")
        .ok()?
        .call_method1("_getframe", (0,))
        .ok()?;
    let file: String = frame
        .getattr("f_code")
        .ok()?
        .getattr("co_filename")
        .ok()?
        .extract()
        .ok()?;
    let line: u32 = frame.getattr("f_lineno").ok()?.extract().ok()?;
    let file = file.rsplit('/').next().unwrap_or(&file);
    Some(format!("{file}:{line}"))
}

/// Returns a copy of a NumPy array, or of what `numpy.asarray` takes, in new memory. The other arguments are those of `zeros`.
#[pyfunction]
#[pyo3(signature = (array, device=0, kind="unified", name=None))]
pub(crate) fn from_numpy(
    array: &Bound<'_, PyAny>,
    device: usize,
    kind: &str,
    name: Option<String>,
) -> PyResult<Array> {
    let py = array.py();
    let (kind, word) = self::kind(kind)?;
    let elements = Elements::of_numpy(array)?;
    let backend = backend(py, device)?;
    let name = name.or_else(|| caller(py));
    let buffer = without_lock(py, || {
        backend.create_erased_from(kind, elements.dtype, elements.bytes())
    })?;
    Ok(finish(
        buffer,
        elements.shape.clone(),
        word,
        backend,
        name,
        false,
    ))
}

/// The elements of a NumPy array, which lives as long.
pub(crate) struct Elements {
    dtype: DType,
    pub(crate) shape: Vec<usize>,
    address: usize,
    bytes: usize,
    _array: Py<PyAny>,
}

impl Elements {
    pub(crate) fn of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let numpy = value.py().import("numpy")?;
        // Not `ascontiguousarray`, which gives a number one extent.
        let array = numpy.call_method1("require", (value, value.py().None(), "C"))?;
        let dtype = dtype::of_numpy(&array.getattr("dtype")?)?;
        Ok(Self {
            dtype,
            shape: array.getattr("shape")?.extract()?,
            address: array.getattr("ctypes")?.getattr("data")?.extract()?,
            bytes: array.getattr("nbytes")?.extract()?,
            _array: array.unbind(),
        })
    }

    /// Checks that the elements fit into an array.
    pub(crate) fn check(&self, dtype: DType, len: usize) -> PyResult<()> {
        let (own, found) = (dtype::name(dtype), dtype::name(self.dtype));
        if dtype != self.dtype {
            return Err(argument(format!(
                "copy_: the source has dtype {found}, and the array has {own}: convert it with `astype(\"{own}\")`"
            )));
        }
        match count(&self.shape)? {
            same if same == len => Ok(()),
            other => Err(argument(format!(
                "copy_: the source has {other} elements, and the array has {len}: they must be equal"
            ))),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: NumPy says that the array has these bytes at this address, in one piece, and the reference keeps it alive. As for each call
        // of NumPy that releases Python's lock, other threads must not write the array meanwhile.
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.bytes)
        }
    }
}
