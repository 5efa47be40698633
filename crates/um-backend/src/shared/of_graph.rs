//! Storage that a captured step holds.

use std::cell::RefCell;

use super::storage::Handle;
use crate::error::{CudaError, Result};
use crate::shared::SharedBuffer;

thread_local! {
    /// The storage that the step that this thread captures has used.
    static USED: RefCell<Option<Vec<HeldByGraph>>> = const { RefCell::new(None) };
}

/// Collects the storage that this thread uses, until it ends or is dropped.
pub(crate) struct Holding(());

impl Holding {
    /// Begins in a capture. At the end of a thread, nothing is held.
    pub(crate) fn begin() -> Self {
        let _ = USED.try_with(|used| used.replace(Some(Vec::new())));
        Self(())
    }

    pub(crate) fn end(self) -> Vec<HeldByGraph> {
        let used = USED.try_with(RefCell::take);
        used.ok().flatten().unwrap_or_default()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = USED.try_with(RefCell::take);
    }
}

/// Must be called when this thread takes access to storage.
#[inline]
pub(super) fn used(storage: &Handle) {
    if cuda_um::graph::is_capturing() {
        hold(storage, false);
    }
}

/// Must be called when this thread asks for storage of its own. Each launch of a captured step needs that, too.
pub(super) fn made_unique(storage: &Handle) -> Result<()> {
    if !cuda_um::graph::is_capturing() {
        return Ok(());
    }
    if storage.handles() != Some(1) {
        return Err(CudaError::Capture {
            call: "`SharedBuffer::make_unique` of storage that another handle has".to_owned(),
            reason: "each launch would copy the old elements again: call it before the capture, or make a copy in the step (`try_clone`)".to_owned(),
        });
    }
    hold(storage, true);
    Ok(())
}

#[cold]
fn hold(storage: &Handle, as_own: bool) {
    let _ = USED.try_with(|used| {
        let mut used = used.borrow_mut();
        let Some(used) = &mut *used else { return };
        let of_storage = |held: &&mut HeldByGraph| held.address() == storage.address();
        match used.iter_mut().find(of_storage) {
            Some(held) => held.as_own |= as_own,
            None => used.push(HeldByGraph {
                whole: SharedBuffer::all(storage.uncounted()),
                as_own,
            }),
        }
    });
}

#[derive(Debug)]
pub(crate) struct HeldByGraph {
    /// All bytes of the storage, as a handle that does not count as one, nor do its guards.
    pub(crate) whole: SharedBuffer,
    /// Whether the step made the storage its own (`make_unique`).
    as_own: bool,
}

impl HeldByGraph {
    /// Refuses storage that the step made its own, and that several handles have now.
    pub(crate) fn check_own(&self) -> Result<()> {
        match self.whole.storage.handles() {
            Some(handles @ 2..) if self.as_own => Err(CudaError::InvalidArgument {
                what: "the storage of a captured step",
                value: format!("one with {handles} handles and guards"),
                reason: "the step made it unique before it wrote it, and a launch does not copy: make the other handles copies (`try_clone`), or drop them".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Distinguishes the storage from other storage that lives.
    pub(crate) fn address(&self) -> usize {
        self.whole.storage.address()
    }
}
