//! The elements of arrays for the host, as NumPy arrays.
#![allow(unsafe_code, reason = "copies to and from the memory of NumPy arrays")]

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use um_backend::{Buffer, CudaError, DType, HostOwned, HostOwnedMut};

use crate::array::Array;
use crate::dtype;
use crate::errors::{OrRaise, argument, without_lock};

/// A context manager that gives the elements of an array to the host: `Array.numpy()`.
///
/// A guard stays on its thread, and so does the block.
#[pyclass(frozen, unsendable, module = "cuda_um")]
pub(crate) struct HostAccess {
    array: Py<Array>,
    write: bool,
    open: RefCell<Option<Open>>,
}

/// The access of a block.
enum Open {
    Read {
        _guard: HostOwned<u8>,
    },
    Write(HostOwnedMut<u8>),
    /// Memory that the host cannot access: a NumPy array has a copy.
    Copy(Py<PyAny>),
}

impl HostAccess {
    pub(crate) fn new(array: Bound<'_, Array>, write: bool) -> PyResult<Self> {
        if write {
            array.get().check_writable("numpy(write=True)")?;
        }
        Ok(Self {
            array: array.unbind(),
            write,
            open: RefCell::new(None),
        })
    }

    /// Takes the memory, and returns its address. Waits for the device and for other blocks without Python's lock, which they may need.
    fn borrow(&self, py: Python<'_>) -> PyResult<(Open, usize)> {
        let (array, write) = (self.array.get(), self.write);
        loop {
            without_lock(py, || self::wait(array, write))?;
            match self.now(array) {
                // Another thread was faster.
                Err(CudaError::StorageInUse { .. }) => {}
                taken => return taken.or_raise(),
            }
        }
    }

    fn now(&self, array: &Array) -> um_backend::Result<(Open, usize)> {
        if self.write {
            let bytes = array.storage().cast(DType::U8)?.try_write()?.into_erased();
            let guard = HostOwnedMut::of(Box::new(bytes.into_typed::<u8>()?))?;
            let address = guard.as_ptr().expose_provenance();
            return Ok((Open::Write(guard), address));
        }
        let bytes = array.storage().cast(DType::U8)?.try_read()?.into_erased();
        let guard = HostOwned::of(&(Arc::new(bytes.into_typed::<u8>()?) as Arc<dyn Buffer<u8>>))?;
        let address = guard.as_ptr().expose_provenance();
        Ok((Open::Read { _guard: guard }, address))
    }

    /// Copies the memory to a new NumPy array.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array.get();
        let dtype = dtype::to_numpy(py, array.dtype_of())?;
        let shape = PyTuple::new(py, &array.shape)?;
        let copy = py.import("numpy")?.call_method1("empty", (shape, dtype))?;
        let (address, bytes) = (address(&copy)?, array.storage().size_bytes());
        array.work(py, |storage| {
            // SAFETY: the new array has these bytes in one piece, and no other code has it.
            let target = unsafe {
                std::slice::from_raw_parts_mut(
                    std::ptr::with_exposed_provenance_mut(address),
                    bytes,
                )
            };
            storage.read()?.copy_to_bytes(target)
        })?;
        Ok(copy)
    }

    fn write_back(&self, py: Python<'_>, copy: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = self.array.get();
        let (address, bytes) = (address(copy)?, array.storage().size_bytes());
        array.work(py, |storage| {
            // SAFETY: as in `copy`; the block is over.
            let source = unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), bytes)
            };
            storage.write()?.copy_from_bytes(source)
        })
    }
}

fn address(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    array.getattr("ctypes")?.getattr("data")?.extract()
}

/// Waits until a guard would not wait.
fn wait(array: &Array, write: bool) -> um_backend::Result<()> {
    array.buffer.settle()?;
    match write {
        true => drop(array.storage().write()?.bytes_mut().host_mut()?),
        false => drop(array.storage().read()?.bytes().host()?),
    }
    Ok(())
}

#[pymethods]
impl HostAccess {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.borrow());
        if this.open.borrow().is_some() {
            return Err(argument(
                "a numpy() block cannot be entered twice: call numpy() again",
            ));
        }
        let array = this.array.get();
        if array.kind == "device" {
            let copy = this.copy(py)?;
            copy.call_method1("setflags", (this.write,))?;
            this.open.replace(Some(Open::Copy(copy.clone().unbind())));
            return Ok(copy);
        }
        let dtype = dtype::to_numpy(py, array.dtype_of())?;
        let (open, address) = this.borrow(py)?;
        this.open.replace(Some(open));
        let elements = Elements {
            array: this.array.clone_ref(py),
            address,
            write: this.write,
        };
        let view = py.import("numpy")?.call_method1("asarray", (elements,))?;
        view.call_method1("view", (dtype,))
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.open.take() {
            Some(Open::Copy(copy)) if self.write => self.write_back(py, copy.bind(py)),
            Some(Open::Write(guard)) => guard.close().or_raise(),
            _ => Ok(()),
        }
    }
}

/// The memory of a NumPy array, which keeps this object, also after the block.
#[pyclass(frozen, module = "cuda_um")]
struct Elements {
    array: Py<Array>,
    address: usize,
    write: bool,
}

#[pymethods]
impl Elements {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let array = self.array.get();
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, &array.shape)?)?;
        interface.set_item("typestr", dtype::code(py, array.dtype_of())?)?;
        interface.set_item("data", (self.address, !self.write))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

/// A copy of all elements: `numpy.asarray(array)`.
pub(crate) fn array<'py>(
    array: Bound<'py, Array>,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    if copy == Some(false) {
        return Err(argument(
            "an array of NumPy without a copy needs a block: `with array.numpy() as elements:`",
        ));
    }
    let py = array.py();
    let elements = HostAccess::new(array, false)?.copy(py)?;
    match dtype {
        Some(dtype) => elements.call_method1("astype", (dtype,)),
        None => Ok(elements),
    }
}
