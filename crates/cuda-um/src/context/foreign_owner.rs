//! The owner of a stream or of memory of another library.

use crate::process_end::Calls;
use crate::sync::{Mutex, after_unlock};
use std::any::Any;
use std::mem::ManuallyDrop;

/// A value that keeps a stream or memory of another library. Its drop is foreign code: it runs without locks, a panic is caught, and it does
/// not run in a child made by `fork`.
pub(crate) struct ForeignOwner(Mutex<Option<ManuallyDrop<Box<dyn Any + Send>>>>);

impl ForeignOwner {
    pub(crate) fn new(value: impl Send + 'static) -> Self {
        Self(Mutex::new(Some(ManuallyDrop::new(Box::new(value)))))
    }
}

impl Drop for ForeignOwner {
    /// Drops the value as soon as this thread holds no lock of the library.
    fn drop(&mut self) {
        let value = self.0.get_mut().take();
        // The value may call CUDA.
        after_unlock(move || {
            if let Some(_calls) = Calls::begin() {
                drop(value.map(ManuallyDrop::into_inner));
            }
        });
    }
}
