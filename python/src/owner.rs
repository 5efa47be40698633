//! Tensors of other libraries, and the end of the interpreter.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use pyo3::prelude::*;
use um_dlpack::dlpark::{Managed, ManagedTensorBase};

/// Whether the interpreter is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Runs at the end of the program, before the interpreter ends (`atexit`).
#[pyfunction]
pub(crate) fn _ends() {
    ENDS.store(true, SeqCst);
}

/// A tensor whose deleter may need the interpreter. Threads of this library drop it, and a thread that waits for the lock of an interpreter that
/// has ended is ended by it. So from the end of the program on it is leaked.
struct Owner<M: ManagedTensorBase>(Option<Managed<M>>);

pub(crate) fn of<M: ManagedTensorBase + 'static>(tensor: Managed<M>) -> Arc<dyn Any + Send + Sync> {
    Arc::new(Owner(Some(tensor)))
}

impl<M: ManagedTensorBase> Drop for Owner<M> {
    fn drop(&mut self) {
        if ENDS.load(SeqCst) {
            std::mem::forget(self.0.take());
        }
    }
}
