//! Allocators that frameworks plug in.
#![allow(
    unsafe_code,
    reason = "functions of C, and the framework's promises about addresses and streams"
)]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, RwLock, Weak};

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use um_backend::allocator::Allocator as Native;
use um_backend::cuda_um::fork::PerProcess;
use um_backend::cuda_um::{MemoryKind, Oversubscription, Pool, PoolOptions};
use um_backend::{CudaBackend, CudaError};

use crate::backend::backend;
use crate::devices::pool;
use crate::errors::{argument, message, without_lock};
use crate::number::Number;
use crate::outside::{Words, string};

/// The allocators that live, to find a tensor's memory.
static ALL: PerProcess<Mutex<Vec<Weak<Native>>>> = PerProcess::new(Mutex::default);

/// The allocators that live, in the order of their making.
pub(crate) fn all() -> Vec<Arc<Native>> {
    ALL.get().lock().iter().filter_map(Weak::upgrade).collect()
}

/// The allocators of one choice, one for each device that was used.
struct Allocators {
    first: CudaBackend,
    kind: MemoryKind,
    oversubscription: Oversubscription,
    prefetch: bool,
    name: Option<String>,
    made: Mutex<HashMap<usize, Arc<Native>>>,
    /// The last error of a function of C, which can only return null.
    refused: Mutex<Option<String>>,
}

impl Allocators {
    /// The allocator of a device. Needs no lock of Python.
    fn of(&self, device: usize) -> Result<Arc<Native>, CudaError> {
        if let Some(made) = self.made.lock().get(&device) {
            return Ok(made.clone());
        }
        let backend = self.first.sibling(device)?;
        let options = PoolOptions::default().oversubscription(self.oversubscription);
        let pool = Pool::new(backend.device(), self.kind, options)?;
        let mut new = Native::new(pool)?.prefetch(self.prefetch);
        if let Some(name) = &self.name {
            new = new.name(name.as_str());
        }
        let mut made = self.made.lock();
        let of_device = made.entry(device).or_insert_with(|| {
            let new = Arc::new(new);
            let mut all = ALL.get().lock();
            all.retain(|known| known.strong_count() > 0);
            all.push(Arc::downgrade(&new));
            new
        });
        Ok(of_device.clone())
    }

    /// Runs a function of C: an error is kept, and `None`.
    fn run<R>(&self, work: impl FnOnce() -> Result<R, CudaError>) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(work));
        let refused = match result {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(refused)) => message(&refused),
            Err(_) => "a panic of the library".to_owned(),
        };
        *self.refused.lock() = Some(refused);
        None
    }
}

/// The allocators that functions of C use: a framework passes no choice to them, so each choice has its own functions.
static PLUGGED: [RwLock<Option<Arc<Allocators>>>; 16] = [const { RwLock::new(None) }; 16];

fn plugged(number: usize) -> Option<Arc<Allocators>> {
    PLUGGED[number].read().ok()?.clone()
}

/// # Safety
/// As for `Native::allocate`.
unsafe fn allocate(number: usize, bytes: isize, device: c_int, stream: *mut c_void) -> *mut c_void {
    let Some(allocators) = plugged(number) else {
        return null_mut();
    };
    let done = allocators.run(|| {
        let native = allocators.of(device.unsigned_abs() as usize)?;
        // SAFETY: guaranteed by the caller.
        unsafe { native.allocate(bytes.unsigned_abs(), stream.cast()) }
    });
    done.unwrap_or(null_mut())
}

/// # Safety
/// As for `Native::free`.
unsafe fn free(number: usize, address: *mut c_void, device: c_int, stream: *mut c_void) {
    let Some(allocators) = plugged(number) else {
        return;
    };
    allocators.run(|| {
        let native = allocators.of(device.unsigned_abs() as usize)?;
        // SAFETY: guaranteed by the caller.
        unsafe { native.free(address, stream.cast()) }
    });
}

/// The functions that PyTorch's `CUDAPluggableAllocator` finds by name.
macro_rules! functions {
    ($($number:literal)*) => {$(const _: () = {
        /// Allocates `bytes` bytes on a device, in the order of a stream. Null if that is not possible.
        ///
        /// # Safety
        /// The stream is 0 or a live stream of the device.
        #[unsafe(export_name = concat!("cuda_um_allocate_", $number))]
        unsafe extern "C" fn c_allocate(bytes: isize, device: c_int, stream: *mut c_void) -> *mut c_void {
            // SAFETY: guaranteed by the caller.
            unsafe { allocate($number, bytes, device, stream) }
        }

        /// Frees memory of the function above, in the order of a stream.
        ///
        /// # Safety
        /// The stream is 0 or a live stream of the device. All work that uses the memory is on it, or ordered before.
        #[unsafe(export_name = concat!("cuda_um_free_", $number))]
        unsafe extern "C" fn c_free(address: *mut c_void, _bytes: isize, device: c_int, stream: *mut c_void) {
            // SAFETY: guaranteed by the caller.
            unsafe { free($number, address, device, stream) }
        }
    };)*
    const NAMES: [(&str, &str); 16] =
        [$((concat!("cuda_um_allocate_", $number), concat!("cuda_um_free_", $number)),)*];
    };
}

functions! { 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }

/// Memory for a framework, in the order of the framework's streams: what `cuda_um.torch`, `cuda_um.cupy` and `cuda_um.numba` use.
///
/// `kind` is "unified" or "device". `oversubscription=True` allows more unified memory than the device has. With `prefetch`, new unified memory is on the
/// device before the first kernel uses it. `name` is the memory's name in profiles.
#[pyclass(frozen, module = "cuda_um")]
pub(crate) struct Allocator {
    allocators: Arc<Allocators>,
    plugged: Mutex<Option<usize>>,
}

#[pymethods]
impl Allocator {
    #[new]
    #[pyo3(signature = (kind=Words::from("unified"), oversubscription=false, prefetch=true, name=None), text_signature = "(kind=\"unified\", oversubscription=False, prefetch=True, name=None)")]
    fn new(
        py: Python<'_>,
        kind: Words,
        oversubscription: bool,
        prefetch: bool,
        name: Option<Words>,
    ) -> PyResult<Self> {
        let kind = match &*kind.0 {
            "unified" => MemoryKind::Managed,
            "device" => MemoryKind::Device,
            other => {
                return Err(argument(format!(
                    "kind cannot be {other:?}: memory for a framework is \"unified\" or \"device\""
                )));
            }
        };
        let allocators = Allocators {
            first: backend(py, 0)?,
            kind,
            oversubscription: match oversubscription {
                true => Oversubscription::Allowed,
                false => Oversubscription::Refused,
            },
            prefetch,
            name: name.map(|name| name.0),
            made: Mutex::new(HashMap::new()),
            refused: Mutex::new(None),
        };
        Ok(Self {
            allocators: Arc::new(allocators),
            plugged: Mutex::new(None),
        })
    }

    /// Allocates memory with arbitrary contents. Work on `stream` (a handle of CUDA) runs after all work of the memory's former owners. The memory is
    /// freed with the block, in the order of the same stream; the block keeps `owner` until then, such as the object of the stream.
    #[pyo3(signature = (nbytes, device=Number(0), stream=0, owner=None), text_signature = "(self, nbytes, device=0, stream=0, owner=None)")]
    fn allocate(
        &self,
        py: Python<'_>,
        nbytes: usize,
        device: Number<usize>,
        stream: usize,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Block> {
        let allocators = self.allocators.clone();
        let (native, address) = without_lock(py, move || {
            let native = allocators.of(device.0)?;
            // SAFETY: the caller passes a stream that lives, as the protocols of array libraries require.
            let address = unsafe { native.allocate(nbytes, with_exposed_provenance_mut(stream)) }?;
            Ok((native, address.expose_provenance()))
        })?;
        Ok(Block {
            native,
            address,
            nbytes,
            stream,
            _owner: owner,
        })
    }

    /// The names of two C functions of this module's library, `void *allocate(ssize_t bytes, int device, cudaStream_t stream)` and
    /// `void free(void *address, ssize_t bytes, int device, cudaStream_t stream)`. A process has 16 pairs; that of an allocator without live memory is free again
    /// when the allocator is dropped.
    fn functions(&self) -> PyResult<(&'static str, &'static str)> {
        let mut plugged = self.plugged.lock();
        if plugged.is_none() {
            *plugged = PLUGGED.iter().position(|place| {
                let mut place = place.write().unwrap_or_else(|broken| broken.into_inner());
                let is_free = place.is_none();
                if is_free {
                    *place = Some(self.allocators.clone());
                }
                is_free
            });
        }
        let number = plugged.ok_or_else(|| {
            argument("16 allocators are plugged into frameworks, and a process has no more: use one of them again")
        })?;
        Ok(NAMES[number])
    }

    /// The memory of a device as a dictionary: the bytes that the framework has, their peak, the bytes that the pool has from CUDA, and the number of
    /// blocks.
    #[pyo3(signature = (device=Number(0)), text_signature = "(self, device=0)")]
    fn stats<'py>(&self, py: Python<'py>, device: Number<usize>) -> PyResult<Bound<'py, PyDict>> {
        let allocators = self.allocators.clone();
        let stats = without_lock(py, move || Ok(allocators.of(device.0)?.stats()))?;
        pool(py, stats, c"live_blocks")
    }

    /// Returns the memory that the framework does not use to CUDA, and returns its bytes.
    #[pyo3(signature = (device=Number(0)), text_signature = "(self, device=0)")]
    fn trim(&self, py: Python<'_>, device: Number<usize>) -> PyResult<usize> {
        let allocators = self.allocators.clone();
        without_lock(py, move || Ok(allocators.of(device.0)?.trim()))
    }

    /// The reason why a C function of `functions` failed last; None if none did. A framework knows only that it did.
    #[getter]
    fn last_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let refused = self.allocators.refused.lock().clone();
        refused.map(|text| string(py, &text)).transpose()
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        let Some(number) = *self.plugged.lock() else {
            return;
        };
        let is_live = |native: &Arc<Native>| native.stats().live_bytes > 0;
        if !self.allocators.made.lock().values().any(is_live)
            && let Ok(mut place) = PLUGGED[number].write()
        {
            *place = None;
        }
    }
}

/// Memory of an [`Allocator`], which is freed when the block is dropped.
#[pyclass(frozen, module = "cuda_um", name = "_Block")]
pub(crate) struct Block {
    native: Arc<Native>,
    address: usize,
    nbytes: usize,
    stream: usize,
    /// Dropped after the memory.
    _owner: Option<Py<PyAny>>,
}

#[pymethods]
impl Block {
    /// The address of the first byte, for kernels and, of unified memory, for the CPU.
    #[getter]
    fn address(&self) -> usize {
        self.address
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.nbytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (address, stream) = (self.address, self.stream);
        // SAFETY: the program that has the block uses the memory on this stream, or orders its work before; the owner keeps the stream.
        let freed = unsafe {
            self.native.free(
                with_exposed_provenance_mut(address),
                with_exposed_provenance_mut(stream),
            )
        };
        // A drop returns no error: the memory stays allocated.
        drop(freed);
    }
}
