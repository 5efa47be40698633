//! The owner of a stream or of memory of another library.

use crate::fork;
use crate::process_end::Calls;
use crate::sync::{Mutex, after_unlock, caught};
use std::any::Any;

/// A value that keeps a stream or memory of another library. Its drop is foreign code: it runs without locks, a panic is caught, and it does
/// not run in a child made by `fork`.
pub(crate) struct ForeignOwner {
    value: Mutex<Option<Value>>,
}

/// The value; a panic of its drop is caught.
struct Value(Option<Box<dyn Any + Send>>);

impl ForeignOwner {
    pub(crate) fn new(value: impl Send + 'static) -> Self {
        let value = Value(Some(Box::new(value)));
        Self {
            value: Mutex::new(Some(value)),
        }
    }

    /// Drops the value, as soon as this thread holds no lock of the library.
    pub(crate) fn let_go(&self) {
        if fork::is_over() {
            return;
        }
        let value = self.value.lock().take();
        if value.is_some() {
            // The value may call CUDA.
            after_unlock(move || match Calls::begin() {
                Some(_calls) => drop(value),
                None => std::mem::forget(value),
            });
        }
    }
}

impl Drop for ForeignOwner {
    fn drop(&mut self) {
        match fork::is_over() {
            true => std::mem::forget(self.value.get_mut().take()),
            false => self.let_go(),
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            caught(move || drop(value));
        }
    }
}
