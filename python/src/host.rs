//! The elements of arrays for the host, as NumPy arrays.
#![allow(unsafe_code, reason = "copies to and from the memory of NumPy arrays")]

use std::ops::Range;
use std::sync::Arc;

use cuda_um_sys::locks::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use um_backend::{
    BufferKind, DType, ErasedBuffer, HostBuffer, SharedRead, SharedWrite,
    cuda_um::buffer::{HostOwned, HostOwnedMut},
};

use crate::array::Array;
use crate::errors::{argument, of_python, text, without_lock};
use crate::outside::Outside;
use crate::{create, dtype, interface, ops, outside};

/// What a block does with the elements.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Writes each element, and reads none before.
    WriteAll,
}

impl<'py> FromPyObject<'_, 'py> for Mode {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(write) = value.cast::<PyBool>() {
            return Ok(if write.is_true() {
                Self::Write
            } else {
                Self::Read
            });
        }
        let word = value.cast::<PyString>().ok();
        match word
            .map(|word| outside::words(&word))
            .transpose()?
            .as_deref()
        {
            Some("all") => Ok(Self::WriteAll),
            _ => Err(argument(format!(
                "write cannot be {}: it is True, False or \"all\"",
                text(value.shown()?.as_any())?
            ))),
        }
    }
}

/// A context manager that gives the elements of an array to the host: `Array.numpy()`.
///
/// The thread that enters the block has the access: a call that would wait for its own block is an error. Any thread may leave the block, as the
/// end of a generator or the garbage collector may.
#[pyclass(frozen, module = "cuda_um")]
pub(crate) struct HostAccess {
    array: Py<Array>,
    mode: Mode,
    /// A lock as in `backend`.
    open: Mutex<State>,
}

enum State {
    Closed,
    /// A thread enters the block.
    Entering,
    Open(Open),
}

/// A block, and the NumPy array that it gave.
struct Open {
    access: Access,
    elements: Py<PyAny>,
}

/// The access of a block.
enum Access {
    Guard {
        _guard: Guard,
    },
    /// The memory of a NumPy array, for memory that the host cannot access or does not read. A block that writes keeps the array's memory until
    /// its end.
    Copy(Arc<Memory>, Option<ErasedBuffer>),
}

/// Memory of this library: a NumPy array that had its own could resize it within the block.
enum Memory {
    Host(Vec<u8>),
    /// From the pool of pinned memory, whose pages are there and which the GPU reads itself.
    Pinned(ErasedBuffer),
}

/// A guard of the host. Only its drop is used.
enum Guard {
    Read {
        _guard: HostOwned<u8, SharedRead>,
    },
    Write {
        _guard: HostOwnedMut<u8, SharedWrite>,
    },
}

// SAFETY: a guard stays on its thread so that the gate of a device without concurrent managed access knows the thread's own guards, as it still
// does while Python keeps the guard. Its drop may run on any thread: it ends the access by numbers and under locks, and uses no state of its thread.
unsafe impl Send for Guard {}

impl HostAccess {
    pub(crate) fn new(array: Bound<'_, Array>, mode: Mode) -> PyResult<Self> {
        match mode {
            Mode::Read => {}
            Mode::Write => array.get().check_writable("numpy(write=True)")?,
            Mode::WriteAll => array.get().check_writable("numpy(write=\"all\")")?,
        }
        Ok(Self {
            array: array.unbind(),
            mode,
            open: Mutex::new(State::Closed),
        })
    }

    /// Takes the memory, and makes its NumPy array. Waits for the device and for other blocks without Python's lock, which they may need.
    fn enter<'py>(&self, py: Python<'py>) -> PyResult<(Access, Bound<'py, PyAny>)> {
        let array = self.array.get();
        let dtype = dtype::to_numpy(py, array.dtype_of())?;
        let (access, address) = match (array.kind, self.mode) {
            ("device" | "unified", Mode::WriteAll) => self.overwritten(py)?,
            ("device", _) => self.copied(py)?,
            _ => self.borrowed(py)?,
        };
        let memory = match &access {
            Access::Copy(memory, _) => Some(Arc::clone(memory)),
            Access::Guard { .. } => None,
        };
        let elements = Elements {
            array: self.array.clone_ref(py),
            _copy: memory,
            address,
            write: self.mode != Mode::Read,
        };
        let elements = Bound::new(py, elements)?.into_any();
        let convert = outside::import(py, c"numpy")?.attribute(c"asarray")?;
        let view = convert
            .run([&elements])?
            .attribute(c"view")?
            .run([&dtype])?;
        create::address(&view, array.storage().size_bytes())?;
        Ok((access, view))
    }

    /// Ends a block.
    fn end(&self, py: Python<'_>, open: Open) -> PyResult<()> {
        let closed = match self.mode {
            Mode::Read => Ok(()),
            Mode::Write | Mode::WriteAll => {
                let no = PyBool::new(py, false).to_owned().into_any();
                let set = open.elements.bind(py).attribute(c"setflags");
                set.and_then(|set| set.run([&no])).map(drop)
            }
        };
        // In any case, since a copy has what the block wrote.
        leave(self.array.get(), py, open.access).and(closed)
    }

    fn borrowed(&self, py: Python<'_>) -> PyResult<(Access, usize)> {
        let (array, reads) = (self.array.get(), self.mode == Mode::Read);
        without_lock(py, || {
            array.settle()?;
            let bytes = array.storage().cast(DType::U8)?;
            let (guard, address) = match reads {
                false => {
                    let guard = bytes.host_mut::<u8>()?;
                    let address = guard.as_ptr().expose_provenance();
                    (Guard::Write { _guard: guard }, address)
                }
                true => {
                    let guard = bytes.host::<u8>()?;
                    let address = guard.as_ptr().expose_provenance();
                    (Guard::Read { _guard: guard }, address)
                }
            };
            Ok((Access::Guard { _guard: guard }, address))
        })
    }

    /// A copy of the elements.
    fn copied(&self, py: Python<'_>) -> PyResult<(Access, usize)> {
        let write = self.mode == Mode::Write;
        self.array.get().work(py, |storage| {
            let mut memory = HostBuffer::<u8>::zeroed(storage.size_bytes())?.into_vec();
            let held = match write {
                true => Some(storage.write()?.into_erased()),
                false => None,
            };
            match &held {
                Some(held) => held.bytes().copy_to_host(&mut memory)?,
                None => storage.read()?.bytes().copy_to_host(&mut memory)?,
            }
            let address = memory.as_mut_ptr().expose_provenance();
            Ok((Access::Copy(Arc::new(Memory::Host(memory)), held), address))
        })
    }

    /// Memory for elements that no block reads before it writes them: nothing comes to the host.
    fn overwritten(&self, py: Python<'_>) -> PyResult<(Access, usize)> {
        let array = self.array.get();
        array.work(py, |storage| {
            let held = storage.write()?.into_erased();
            let (dtype, len) = (held.dtype(), held.len());
            // SAFETY: the memory is the driver's, and every bit pattern is a value of each type, as for `create::empty`.
            let memory = unsafe {
                array
                    .backend
                    .create_erased_uninit(BufferKind::Pinned, dtype, len)
            }?;
            let address = ops::span(&memory).start;
            Ok((
                Access::Copy(Arc::new(Memory::Pinned(memory)), Some(held)),
                address,
            ))
        })
    }
}

/// A block that is dropped ends as others do.
impl Drop for HostAccess {
    fn drop(&mut self) {
        let state = std::mem::replace(self.open.get_mut(), State::Closed);
        let State::Open(open) = state else { return };
        Python::try_attach(|py| {
            outside::aside(py, || {
                if let Err(refused) = self.end(py, open) {
                    refused.write_unraisable(py, None);
                }
            });
        });
    }
}

/// Gives the access of a block back: writes a copy back.
fn leave(array: &Array, py: Python<'_>, access: Access) -> PyResult<()> {
    match access {
        Access::Copy(memory, Some(mut held)) => array.work(py, move |_| {
            let memory = match &*memory {
                Memory::Host(memory) => memory,
                Memory::Pinned(memory) => return held.copy_from(memory),
            };
            // SAFETY: the bytes of the vector, whose address was exposed. As for each call of NumPy that releases Python's lock, other threads
            // must not write the array meanwhile; the array of the block is read-only now.
            let source = unsafe {
                let start = std::ptr::with_exposed_provenance(memory.as_ptr().addr());
                std::slice::from_raw_parts(start, memory.len())
            };
            held.bytes_mut().copy_from_host(source)
        }),
        access => {
            drop(access);
            Ok(())
        }
    }
}

/// What to write instead of a use without a block.
const A_BLOCK: &str = "it is a block, which ends the access: write `with array.numpy() as elements:` and use `elements` there, or `numpy.asarray(array)` for a copy";

#[pymethods]
impl HostAccess {
    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let is_closed = {
            let mut open = self.open.lock();
            let is_closed = matches!(*open, State::Closed);
            if is_closed {
                *open = State::Entering;
            }
            is_closed
        };
        if !is_closed {
            return Err(argument(
                "a numpy() block cannot be entered twice: call numpy() again",
            ));
        }
        let entered = self.enter(py);
        let (state, result) = match entered {
            Ok((access, elements)) => {
                let kept = elements.clone().unbind();
                let open = Open {
                    access,
                    elements: kept,
                };
                (State::Open(open), Ok(elements))
            }
            Err(refused) => (State::Closed, Err(refused)),
        };
        *self.open.lock() = state;
        result
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let open = {
            let mut state = self.open.lock();
            match std::mem::replace(&mut *state, State::Closed) {
                State::Open(open) => open,
                other => {
                    *state = other;
                    return Ok(());
                }
            }
        };
        self.end(py, open)
    }

    fn __getitem__(&self, py: Python<'_>, _index: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(of_python::<PyTypeError>(
            py,
            &format!("`numpy()` has no elements: {A_BLOCK}"),
        ))
    }

    #[pyo3(signature = (*_choices))]
    fn __array__(&self, py: Python<'_>, _choices: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(of_python::<PyTypeError>(
            py,
            &format!("`numpy()` is no array: {A_BLOCK}"),
        ))
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let state = match &*self.open.lock() {
            State::Closed => "closed",
            State::Entering => "being entered",
            State::Open(_) => "open",
        };
        let write = match self.mode {
            Mode::Read => "False",
            Mode::Write => "True",
            Mode::WriteAll => "'all'",
        };
        let array = self.array.get().shown();
        outside::string(
            py,
            &format!("cuda_um.HostAccess({array}, write={write}, {state})"),
        )
    }
}

/// The memory of a NumPy array, which keeps this object, also after the block.
#[pyclass(frozen, module = "cuda_um")]
struct Elements {
    array: Py<Array>,
    _copy: Option<Arc<Memory>>,
    address: usize,
    write: bool,
}

#[pymethods]
impl Elements {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let array = self.array.get();
        interface::of(array, py, self.address, !self.write)
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
    let (array, py) = (array.get(), array.py());
    let elements = copied(array, py, 0..array.storage().len(), &array.shape)?;
    match dtype {
        Some(dtype) => elements.attribute(c"astype")?.run([&dtype]),
        None => Ok(elements),
    }
}

/// Copies a range of the elements to a new NumPy array of so many elements.
pub(crate) fn copied<'py>(
    array: &Array,
    py: Python<'py>,
    range: Range<usize>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype::to_numpy(py, array.dtype_of())?;
    let shape = outside::shape(py, shape)?.into_any();
    let make = outside::import(py, c"numpy")?.attribute(c"empty")?;
    let copy = make.run([&shape, &dtype])?;
    // What a program puts in the place of NumPy's function may give memory that cannot be written.
    if !copy
        .attribute(c"flags")?
        .attribute(c"writeable")?
        .is_true()?
    {
        return Err(argument(
            "numpy.empty must give an array that can be written",
        ));
    }
    let bytes = range.len() * array.dtype_of().size_bytes();
    let address = create::address(&copy, bytes)?;
    array.work(py, |storage| {
        // SAFETY: the new array has these bytes in one piece, and no other code has it.
        let target = unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), bytes)
        };
        storage.view(range)?.read()?.bytes().copy_to_host(target)
    })?;
    Ok(copy)
}
