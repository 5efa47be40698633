//! Tensors of other libraries, and the end of the interpreter.
#![allow(
    unsafe_code,
    reason = "asks for the number of the interpreter, and drops storage at a time of its choice"
)]

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use um_backend::SharedBuffer;
use um_backend::cuda_um::fork::PerProcess;
use um_dlpack::DlpackBuffer;
use um_dlpack::dlpark::{Managed, ManagedTensorBase};

use crate::outside;

/// The deleters of this process: a child made by `fork` does not have the threads that run those of its parent.
static DELETERS: PerProcess<Deleters> = PerProcess::new(Deleters::default);

#[derive(Default)]
struct Deleters {
    /// Whether the interpreter is about to end.
    end: AtomicBool,
    /// Those that run now.
    running: AtomicUsize,
}

/// How long the end of the program waits for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a second interpreter of the process, whose end would stop the deleters of the first. A child made by `fork` has its parent's.
pub(crate) fn check_interpreter(_py: Python<'_>) -> PyResult<()> {
    static FIRST: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: the thread has the lock of an interpreter, which lives during the call.
    let own = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match FIRST.compare_exchange(-1, own, SeqCst, SeqCst) {
        Err(first) if first != own => Err(PyImportError::new_err(
            "cuda_um can be imported by one interpreter of a process, and another one imported it: use a process instead",
        )),
        _ => Ok(()),
    }
}

/// Runs at the end of the program, before the interpreter ends (`atexit`). Waits for deleters that have begun, without the interpreter's lock,
/// for which they may wait.
#[pyfunction]
pub(crate) fn _ends(py: Python<'_>) {
    let deleters = DELETERS.get();
    deleters.end.store(true, SeqCst);
    py.detach(|| {
        let start = Instant::now();
        while deleters.running.load(SeqCst) > 0 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
}

/// Storage of an array, which Python may drop while an exception is on its way. The drop may run the deleter of another library, and that code of
/// Python.
pub(crate) struct Kept(ManuallyDrop<DlpackBuffer>);

impl Kept {
    pub(crate) fn new(storage: SharedBuffer) -> Self {
        Self(ManuallyDrop::new(DlpackBuffer::new(storage)))
    }
}

impl Deref for Kept {
    type Target = DlpackBuffer;

    fn deref(&self) -> &DlpackBuffer {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        let mut end = || unsafe { ManuallyDrop::drop(&mut self.0) };
        if Python::try_attach(|py| outside::aside(py, &mut end)).is_none() {
            end();
        }
    }
}

/// A tensor whose deleter may need the interpreter. Threads of this library drop it, and a thread that waits for the lock of an interpreter that
/// has ended is ended by it. So from the end of the program on it is leaked.
struct Owner<M: ManagedTensorBase>(Option<Managed<M>>);

pub(crate) fn of<M: ManagedTensorBase + 'static>(tensor: Managed<M>) -> Arc<dyn Any + Send + Sync> {
    Arc::new(Owner(Some(tensor)))
}

impl<M: ManagedTensorBase> Drop for Owner<M> {
    fn drop(&mut self) {
        // In this order: `_ends` waits for a deleter that does not see it.
        let deleters = DELETERS.get();
        deleters.running.fetch_add(1, SeqCst);
        match deleters.end.load(SeqCst) {
            true => std::mem::forget(self.0.take()),
            false => drop(self.0.take()),
        }
        deleters.running.fetch_sub(1, SeqCst);
    }
}
