//! The methods of arrays in Python.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::array::Array;
use crate::dlpack::{self, Request};
use crate::errors::{is_refused, of_python, without_lock};
use crate::host::{self, HostAccess, Mode};
use crate::number::Number;
use crate::ops::{self, Place};
use crate::outside::{Outside, Words};
use crate::{create, dtype, interface, outside};

#[pymethods]
impl Array {
    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        outside::shape(py, &self.shape)
    }

    /// The element type, by its name in NumPy and ml_dtypes: "float32".
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        outside::string(py, &dtype::name(self.dtype_of()))
    }

    /// The kind of memory: "unified", "device", "pinned" or "host".
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        outside::string(py, self.kind)
    }

    /// The ordinal of the array's CUDA device; None for memory of the host.
    #[getter]
    fn device(&self) -> Option<usize> {
        // Of some devices memory of the host is a buffer.
        let device = self.storage().device().filter(|_| self.kind != "host")?;
        Some(device.ordinal() as usize)
    }

    /// The number of extents.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[getter]
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        outside::int(py, self.storage().len() as u64)
    }

    /// The size of all elements, in bytes.
    #[getter]
    fn nbytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        outside::int(py, self.storage().size_bytes() as u64)
    }

    /// The size of one element, in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.dtype_of().size_bytes()
    }

    /// Whether a write is an error, because the memory was imported read-only.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// The name in profiles.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let name = self.name.lock().clone();
        name.map(|name| outside::string(py, &name)).transpose()
    }

    #[setter]
    fn set_name(&self, py: Python<'_>, name: Words) -> PyResult<()> {
        create::named(py, Some(name.0.clone()))?;
        without_lock(py, || {
            self.storage().write()?.bytes_mut().set_name(&name.0);
            Ok(())
        })?;
        *self.name.lock() = Some(name.0);
        Ok(())
    }

    /// Sets every element to a value. Enqueued on the library's stream: later uses of the array are ordered after it.
    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        ops::fill(self, py, value)
    }

    /// Copies all elements of another array, or of a NumPy array, of the same dtype and number of elements.
    fn copy_(&self, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<()> {
        ops::copy(self, py, source)
    }

    /// Migrates unified memory to a place: "host", "device" (the array's own) or the ordinal of a device.
    ///
    /// Ordered as work of `stream`, a handle of another library's stream, or of the library's own; for 2, that of a thread, the
    /// call waits for the device before and for the migration after. Returns whether CUDA took the call: memory that cannot migrate is no error.
    #[pyo3(signature = (to=Place::Own, stream=None), text_signature = "(self, to=\"device\", stream=None)")]
    fn prefetch(&self, py: Python<'_>, to: Place, stream: Option<Number<u64>>) -> PyResult<bool> {
        ops::prefetch(self, py, &to, stream.map(|handle| handle.0))
    }

    /// Gives advice for unified memory: "read_mostly", "preferred_location" or "accessed_by", the last two with a place. `unset=True` takes it
    /// back. Returns whether CUDA took the call.
    #[pyo3(signature = (advice, place=None, unset=false))]
    fn advise(
        &self,
        py: Python<'_>,
        advice: Words,
        place: Option<Place>,
        unset: bool,
    ) -> PyResult<bool> {
        ops::advise(self, py, &advice.0, place, unset)
    }

    /// A context manager that gives the elements to the host, as a NumPy array.
    ///
    /// It waits for the device. The array is the memory itself, or, for memory of the device, a copy that the end of the block writes back.
    /// Without `write=True` the array is read-only, and after the block as well. Do not use the array after the block: the memory stays valid,
    /// but no access waits for the device then.
    ///
    /// With `write="all"` the block writes every element, and reads none before: the array has arbitrary contents at first, in pinned memory
    /// for "unified" and "device", and nothing migrates to the host. The end of the block copies it.
    #[pyo3(signature = (write=Mode::Read), text_signature = "(self, write=False)")]
    fn numpy(slf: Bound<'_, Self>, write: Mode) -> PyResult<HostAccess> {
        HostAccess::new(slf, write)
    }

    /// The elements as a new NumPy array. Waits for the device.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        host::array(slf, dtype, copy)
    }

    /// The memory as a DLPack capsule, which other libraries take with their `from_dlpack`. See the README for streams.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Number<i64>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        dlpack::export(
            self,
            py,
            Request {
                stream,
                max_version,
                dl_device,
                copy,
            },
        )
    }

    /// DLPack's type and ordinal of the device: (2, n) for unified and device memory, (1, 0) for pinned memory and memory of the host.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (device_type, ordinal) = dlpack::device(self);
        outside::shape(py, &[device_type as usize, ordinal])
    }

    /// The address for libraries that know the CUDA Array Interface, version 3. From then on the library waits for the device before and after
    /// each of its own uses of the array, since it cannot know when the other library ends its use.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        interface::cuda(self, py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first.ok_or_else(|| of_python::<PyTypeError>(py, "len() of an array without extents"))
    }

    /// One element, as a number of Python: `array[i]`, `array[i, j]`. Waits for the device.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let element = self.index(index)?;
        let element = host::copied(self, py, element..element + 1, &[])?;
        element.attribute(c"item")?.run([])
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let (len, most) = (self.storage().len(), 6);
        let first = host::copied(self, py, 0..len.min(most), &[len.min(most)])?;
        let mut elements = outside::words(&first.text()?)?;
        if len > most {
            elements.insert_str(elements.len() - 1, " ...");
        }
        outside::string(py, &format!("{}: {elements}", self.shown()))
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        outside::string(py, &self.shown())
    }
}

impl Array {
    /// The position of an element among all.
    fn index(&self, index: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = index.py();
        let refuse = |refused| match is_refused(py, &refused) {
            true => of_python::<PyTypeError>(
                py,
                "an index has one number for each extent: slices are those of `numpy()` blocks, and of PyTorch and CuPy through DLPack",
            ),
            false => refused,
        };
        let numbers = match index.cast::<PyTuple>() {
            Ok(several) => several.iter().map(|one| one.index()).collect(),
            Err(_) => index.index().map(|one| vec![one]),
        };
        let numbers: Vec<Bound<'_, PyAny>> = numbers.map_err(refuse)?;
        if numbers.len() != self.shape.len() {
            return Err(refuse(PyTypeError::new_err(())));
        }
        let mut element = 0;
        for (number, extent) in numbers.iter().zip(&self.shape) {
            let number = number.extract::<i64>().unwrap_or(i64::MAX);
            let from_the_end = number + if number < 0 { *extent as i64 } else { 0 };
            let at = usize::try_from(from_the_end).ok();
            let at = at.filter(|at| at < extent).ok_or_else(|| {
                let message = format!("an index is {number}, and the extent is {extent}");
                of_python::<PyIndexError>(py, &message)
            })?;
            element = element * extent + at;
        }
        Ok(element)
    }

    /// The text of `repr`.
    pub(crate) fn shown(&self) -> String {
        let device = self
            .device()
            .map(|device| format!(", device={device}"))
            .unwrap_or_default();
        let read_only = if self.read_only { ", read-only" } else { "" };
        format!(
            "cuda_um.Array(shape={}, dtype={}, kind={}{device}{read_only})",
            python_tuple(&self.shape),
            dtype::name(self.dtype_of()),
            self.kind
        )
    }
}

fn python_tuple(extents: &[usize]) -> String {
    match extents {
        [one] => format!("({one},)"),
        more => format!(
            "({})",
            more.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}
