//! Hints for tensors of any library, many in one call.
#![allow(unsafe_code, reason = "takes addresses of other libraries")]

use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};

use pyo3::prelude::*;
use um_backend::cuda_um::managed::PrefetchBatch;
use um_backend::cuda_um::{Device, MemoryKind, View};
use um_backend::memory::BufferMemory;
use um_backend::{
    Advice, CudaBackend, CudaError, Location, Result, SharedBuffer, SharedRead, UnifiedBuffer,
};

use crate::allocator;
use crate::array::Array;
use crate::backend::backend;
use crate::errors::{OrRaise, argument, of_cuda};
use crate::number::Number;
use crate::ops::{self, Place};
use crate::outside::{Outside, Words, int, string};
use crate::stream;

/// A tensor, as `_tensors.py` describes it.
pub(crate) struct Tensor {
    /// Its name in errors.
    name: String,
    memory: Memory,
    /// How its library makes one of unified memory.
    how: String,
}

enum Memory {
    Own(Py<Array>),
    Theirs(Range<usize>),
}

impl<'py> FromPyObject<'_, 'py> for Tensor {
    type Error = PyErr;

    fn extract(described: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let part = |index| described.item(index);
        let memory = match part(1)?.cast_into::<Array>() {
            Ok(own) => Memory::Own(own.unbind()),
            Err(other) => {
                let (start, end) = other.into_inner().extract()?;
                Memory::Theirs(start..end)
            }
        };
        Ok(Self {
            name: part(0)?.extract::<Words>()?.0,
            memory,
            how: part(2)?.extract::<Words>()?.0,
        })
    }
}

/// Why hints are not given: memory that does not migrate, with the number of its tensor, or an error.
enum Refused {
    Memory(usize, String),
    Error(CudaError),
}

impl From<CudaError> for Refused {
    fn from(error: CudaError) -> Self {
        Self::Error(error)
    }
}

/// Runs work for tensors, without Python's lock.
fn run<R: Send>(
    py: Python<'_>,
    backend: &CudaBackend,
    tensors: &[Tensor],
    work: impl FnOnce() -> std::result::Result<R, Refused> + Send,
) -> PyResult<R> {
    if backend.is_simulated() {
        um_backend::sim::keep_fault_handler();
    }
    py.detach(work).map_err(|refused| match refused {
        Refused::Error(error) => of_cuda(&error, ""),
        Refused::Memory(number, found) => {
            let Tensor { name, how, .. } = &tensors[number];
            argument(format!(
                "{name} is in {found}, and only unified memory migrates: {how}"
            ))
        }
    })
}

/// Calls `work` with the memory of the tensors, unless that of one does not migrate.
///
/// Meanwhile allocators are locked, also for a thread that has Python's lock and frees memory: so `work` drops nothing of other libraries, and does not
/// wait for the device, which does.
fn views<R>(
    backend: &CudaBackend,
    tensors: &[Tensor],
    work: impl FnOnce(&[View<'_, u8>]) -> Result<R>,
) -> std::result::Result<R, Refused> {
    let read = read(tensors)?;
    let allocators = allocator::all();
    // Dropped after the locks of the allocators: a drop of an import may free memory of one.
    let mut imports = Vec::new();
    let held = allocators.iter().map(|allocator| allocator.held());
    let held = held.collect::<Result<Vec<_>>>()?;
    // SAFETY: the views are used for hints.
    let block = |addresses: &Range<usize>| unsafe {
        held.iter().find_map(|held| held.view(addresses.clone()))
    };
    for (number, tensor) in tensors.iter().enumerate() {
        imports.push(match &tensor.memory {
            Memory::Theirs(addresses) if block(addresses).is_none() => {
                match import(backend.device(), addresses) {
                    Err(CudaError::Foreign { found, .. }) => {
                        return Err(Refused::Memory(number, found));
                    }
                    import => Some(import?),
                }
            }
            _ => None,
        });
    }
    let (mut read, mut views) = (read.iter(), Vec::with_capacity(tensors.len()));
    for (number, (tensor, import)) in tensors.iter().zip(&imports).enumerate() {
        let (view, is_unified) = match (&tensor.memory, import) {
            (Memory::Theirs(_), Some(import)) => (Some(import.as_view()), true),
            (Memory::Theirs(addresses), None) => {
                let view = block(addresses);
                (
                    view,
                    view.is_some_and(|view| view.kind() == MemoryKind::Managed),
                )
            }
            (Memory::Own(own), _) => {
                let memory = read.next().map(|read| read.bytes().memory());
                let view = memory.and_then(|memory| match memory {
                    BufferMemory::Cuda(view) => Some(view),
                    _ => None,
                });
                (view, own.get().kind == "unified")
            }
        };
        match view.filter(|_| is_unified) {
            Some(view) => views.push(view),
            None => {
                let found =
                    view.map_or("memory of the host".to_owned(), |view| view.kind_in_words());
                return Err(Refused::Memory(number, found));
            }
        }
    }
    Ok(work(&views)?)
}

/// Guards of all own arrays. None is held in a wait for another, as in `SharedBuffer::lock`.
fn read(tensors: &[Tensor]) -> Result<Vec<SharedRead>> {
    let own = |tensor: &'_ Tensor| match &tensor.memory {
        Memory::Own(own) => Some(own.get().storage().clone()),
        Memory::Theirs(_) => None,
    };
    let own: Vec<SharedBuffer> = tensors.iter().filter_map(own).collect();
    let mut busy = None;
    loop {
        let first = busy
            .take()
            .map(|busy: usize| own[busy].read())
            .transpose()?;
        let all = own
            .iter()
            .enumerate()
            .map(|(number, own)| match own.try_read() {
                Err(CudaError::Busy { .. }) => {
                    busy = Some(number);
                    None
                }
                read => Some(read),
            });
        let all: Option<Result<Vec<_>>> = all.collect();
        drop(first);
        if let Some(all) = all {
            return all;
        }
    }
}

/// Memory of another library, on any device.
fn import(device: &Device, addresses: &Range<usize>) -> Result<UnifiedBuffer<u8>> {
    let start = NonNull::new(with_exposed_provenance_mut(addresses.start));
    let (start, bytes) = (start.unwrap_or(NonNull::dangling()), addresses.len());
    // SAFETY: the program keeps the tensor during the call, and its library frees memory in the order of the stream, which waits for the work. The
    // buffer is used for hints, which neither read nor write.
    let import = |device: &Device| unsafe { UnifiedBuffer::from_foreign(device, start, bytes, ()) };
    match import(device) {
        Err(CudaError::DeviceMismatch { found, .. }) => import(&device.runtime().device(found)?),
        imported => imported,
    }
}

/// Migrates tensors, in the order of streams.
#[pyfunction]
pub(crate) fn _prefetch(
    py: Python<'_>,
    tensors: Vec<Tensor>,
    to: Place,
    streams: Vec<Number<u64>>,
) -> PyResult<bool> {
    let backend = backend_of(py, &tensors)?;
    let fixed = match to {
        Place::Own => None,
        to => Some(to.location(py, &backend)?),
    };
    let theirs = streams
        .iter()
        .map(|handle| stream::adopt(&backend, py, handle.0));
    let theirs = theirs.collect::<PyResult<Vec<_>>>()?;
    let own = match streams.first() {
        Some(theirs) => py.detach(|| stream::lane(&backend, theirs.0)).or_raise()?,
        None => backend.device().stream().clone(),
    };
    let migrate = |views: &[View<'_, u8>]| {
        let mut batches: Vec<(Location, PrefetchBatch<'_>)> = Vec::new();
        for view in views {
            let place = fixed.unwrap_or_else(|| view.device().into());
            let known = batches.iter().position(|(to, _)| *to == place);
            let known = known.unwrap_or_else(|| {
                batches.push((place, PrefetchBatch::new()));
                batches.len() - 1
            });
            batches[known].1.add(*view);
        }
        let mut is_applied = true;
        for (place, batch) in &mut batches {
            // Work of other libraries is not known.
            let done = batch.forget_places().prefetch_on(*place, &own)?;
            is_applied &= done.outcome.is_applied() && batch.skipped().is_empty();
        }
        Ok(is_applied)
    };
    run(py, &backend, &tensors, || {
        stream::between(&backend, &own, &theirs, |_| {
            views(&backend, &tensors, migrate)
        })
    })
}

/// Gives advice for tensors.
#[pyfunction]
pub(crate) fn _advise(
    py: Python<'_>,
    tensors: Vec<Tensor>,
    advice: Words,
    place: Option<Place>,
    unset: bool,
) -> PyResult<bool> {
    let backend = backend_of(py, &tensors)?;
    let advice = ops::advice(py, &backend, &advice.0, place, unset)?;
    let advise = |views: &[View<'_, u8>]| {
        let mut outcomes = views
            .iter()
            .map(|view| Ok(view.advise(advice)?.is_applied()));
        outcomes.try_fold(true, |all, outcome: Result<bool>| Ok(all & outcome?))
    };
    run(py, &backend, &tensors, || {
        if matches!(advice, Advice::SetReadMostly) {
            // It waits for earlier work, and does not have to within `views`.
            backend.synchronize()?;
        }
        views(&backend, &tensors, advise)
    })
}

/// Where a tensor is: the ordinal of a device or "host"; None if that is not known, or is several places.
#[pyfunction]
pub(crate) fn _residency<'py>(
    py: Python<'py>,
    tensor: Tensor,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let tensors = [tensor];
    let backend = backend_of(py, &tensors)?;
    let [Tensor { memory, .. }] = &tensors;
    let is_ours = matches!(memory, Memory::Own(own) if !own.get().buffer.is_exported());
    let find = |views: &[View<'_, u8>]| {
        if !is_ours {
            PrefetchBatch::new().add(views[0]).forget_places();
        }
        views[0].residency()
    };
    let place = run(py, &backend, &tensors, || {
        // As for advice.
        backend.synchronize()?;
        views(&backend, &tensors, find)
    })?;
    Ok(match place {
        Some(Location::Device(ordinal)) => Some(int(py, ordinal.into())?),
        Some(_) => Some(string(py, "host")?.into_any()),
        None => None,
    })
}

/// The backend of the first array, or of the first device.
fn backend_of(py: Python<'_>, tensors: &[Tensor]) -> PyResult<CudaBackend> {
    let own = tensors.iter().find_map(|tensor| match &tensor.memory {
        Memory::Own(own) => Some(own.get().backend.clone()),
        Memory::Theirs(_) => None,
    });
    own.map_or_else(|| backend(py, 0), Ok)
}
