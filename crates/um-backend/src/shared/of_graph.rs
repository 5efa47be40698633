//! Storage that a captured step holds.

use std::cell::RefCell;
use std::sync::Arc;

use super::storage::Storage;
use crate::dtype::DType;
use crate::error::{CudaError, Result};
use crate::shared::SharedBuffer;

thread_local! {
    /// The storage that the step that this thread captures has used.
    static USED: RefCell<Option<Vec<HeldByGraph>>> = const { RefCell::new(None) };
}

/// Collects the storage that this thread uses, until it ends or is dropped.
pub(crate) struct Holding(());

impl Holding {
    pub(crate) fn begin() -> Result<Self> {
        let begin = |used: &RefCell<Option<_>>| {
            let mut used = used.borrow_mut();
            let is_first = used.is_none();
            used.get_or_insert_with(Vec::new);
            is_first
        };
        match USED.try_with(begin) {
            Ok(true) => Ok(Self(())),
            Ok(false) => Err(CudaError::Capture {
                call: "a second capture".to_owned(),
                reason: "a thread captures one step at a time: end the first one".to_owned(),
            }),
            Err(_) => Err(CudaError::Capture {
                call: "a capture at the end of its thread".to_owned(),
                reason: "the thread's local values are destroyed: capture on another thread"
                    .to_owned(),
            }),
        }
    }

    pub(crate) fn end(self) -> Vec<HeldByGraph> {
        USED.take().unwrap_or_default()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        USED.take();
    }
}

/// Must be called when this thread takes access to storage.
#[inline]
pub(super) fn used(storage: &Arc<Storage>) {
    if cuda_um::graph::is_capturing() {
        hold(storage);
    }
}

#[cold]
fn hold(storage: &Arc<Storage>) {
    // At the end of a thread, only `cuda_um` captures.
    let _ = USED.try_with(|used| {
        if let Some(used) = &mut *used.borrow_mut()
            && !used.iter().any(|held| Arc::ptr_eq(&held.0, storage))
        {
            used.push(HeldByGraph::of(storage));
        }
    });
}

/// A handle of storage that does not count as one.
pub(crate) struct HeldByGraph(Arc<Storage>);

impl HeldByGraph {
    fn of(storage: &Arc<Storage>) -> Self {
        let held = Self(Arc::clone(storage));
        // After the handle is made, and before it is dropped: meanwhile the storage seems to have one handle more, which only makes it copy.
        held.0.hold();
        held
    }

    /// All bytes of the storage.
    pub(crate) fn whole(&self) -> SharedBuffer {
        SharedBuffer {
            bytes: 0..self.0.size_bytes(),
            storage: Arc::clone(&self.0),
            dtype: DType::U8,
        }
    }

    /// Distinguishes the storage from other storage that lives.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl Drop for HeldByGraph {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
