//! The array: storage with a shape.

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use um_backend::{BufferKind, CudaBackend, DType, SharedBuffer};

use crate::errors::{argument, is_refused, refusal, text, without_lock};
use crate::outside::Outside;
use crate::owner::Kept;

/// An array in memory that the CPU and the GPU share, or in another kind of memory.
///
/// It has the elements of one type, in row-major order. PyTorch, CuPy, JAX and NumPy use its memory through DLPack, without a copy.
#[pyclass(frozen, module = "cuda_um", weakref)]
pub(crate) struct Array {
    pub(crate) buffer: Kept,
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: &'static str,
    /// The name in profiles, beside the storage, which a block may have. A lock as in `backend`.
    pub(crate) name: Mutex<Option<String>>,
    pub(crate) read_only: bool,
    /// Whether another library made the memory, which it may use as long as the array lives.
    pub(crate) imported: bool,
    pub(crate) backend: CudaBackend,
}

/// The kind of memory that a word means.
pub(crate) fn kind(name: &str) -> PyResult<(BufferKind, &'static str)> {
    match name {
        "unified" => Ok((BufferKind::Unified, "unified")),
        "device" => Ok((BufferKind::Cuda, "device")),
        "pinned" => Ok((BufferKind::Pinned, "pinned")),
        "host" => Ok((BufferKind::Host, "host")),
        _ => Err(argument(format!(
            "kind cannot be {name:?}: it is \"unified\", \"device\", \"pinned\" or \"host\""
        ))),
    }
}

/// The extents that a number or a sequence means.
pub(crate) fn extents(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let refuse = |error| {
        refusal(error, |_| {
            Ok(format!(
                "shape cannot be {}: it is a number of elements or a sequence of at most {MOST_EXTENTS} extents, each at least 0",
                text(shape)?
            ))
        })
    };
    let number = |value: &Bound<'_, PyAny>| value.index()?.extract::<usize>();
    let refused = match number(shape) {
        Ok(len) => return Ok(vec![len]),
        Err(error) => error,
    };
    let is_word_or_map = shape.is_instance_of::<PyString>() || shape.is_instance_of::<PyDict>();
    // An interrupt is no refused number.
    if is_word_or_map || !is_refused(shape.py(), &refused) {
        return Err(refuse(refused));
    }
    let len = shape.length().map_err(refuse)?;
    if len > MOST_EXTENTS {
        return Err(refuse(refused));
    }
    // One by one: the sequence may say another length later.
    let extent = |index| number(&shape.item(index)?);
    let extents: PyResult<Vec<usize>> = (0..len).map(extent).collect();
    extents.map_err(refuse)
}

/// The extents that an array of NumPy may have.
pub(crate) const MOST_EXTENTS: usize = 64;

/// The elements of a shape, each of so many bytes. Every array's shape is one that this function and NumPy allow.
pub(crate) fn count(shape: &[usize], size: usize) -> Result<usize, String> {
    if shape.len() > MOST_EXTENTS {
        return Err(format!(
            "shape cannot have {} extents: NumPy has at most {MOST_EXTENTS}",
            shape.len()
        ));
    }
    // As NumPy, which counts in signed numbers, and leaves out extents of 0.
    let bytes = shape
        .iter()
        .try_fold(size, |bytes, extent| bytes.checked_mul(*extent.max(&1)));
    match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(shape.iter().product()),
        false => Err(format!(
            "shape cannot be {shape:?}: it has more elements than can be addressed"
        )),
    }
}

impl Array {
    pub(crate) fn storage(&self) -> &SharedBuffer {
        self.buffer.storage()
    }

    pub(crate) fn dtype_of(&self) -> DType {
        self.storage().dtype()
    }

    /// Runs work of this library on the array, without Python's lock.
    pub(crate) fn work<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&SharedBuffer) -> um_backend::Result<R> + Send,
    ) -> PyResult<R> {
        without_lock(py, || self.alone(work))
    }

    /// Runs work of this library on the array. While another library has the memory, its work is done before, and this work when the call
    /// returns: each library's streams are unknown to the other.
    pub(crate) fn alone<R>(
        &self,
        work: impl FnOnce(&SharedBuffer) -> um_backend::Result<R>,
    ) -> um_backend::Result<R> {
        self.settle()?;
        let result = work(self.storage())?;
        if self.buffer.is_exported() || self.is_foreign() {
            self.backend.synchronize()?;
        }
        Ok(result)
    }

    /// Waits for the device if work of another library may use the memory.
    pub(crate) fn settle(&self) -> um_backend::Result<()> {
        self.keep_fault_handler();
        match self.is_foreign() {
            true => self.backend.synchronize(),
            false => self.buffer.settle(),
        }
    }

    /// Lets the simulator see the host's accesses, also if Python's `faulthandler` was enabled or disabled meanwhile.
    pub(crate) fn keep_fault_handler(&self) {
        if self.backend.is_simulated() {
            um_backend::sim::keep_fault_handler();
        }
    }

    /// Whether the memory is one of CUDA that another library made. That library does not say if it still uses it.
    fn is_foreign(&self) -> bool {
        self.imported && self.storage().device().is_some()
    }

    /// Refuses a write of a read-only array.
    pub(crate) fn check_writable(&self, call: &str) -> PyResult<()> {
        match self.read_only {
            false => Ok(()),
            true => Err(argument(format!(
                "{call}: the array was imported read-only: copy it to an own array first, with `copy_`"
            ))),
        }
    }
}
