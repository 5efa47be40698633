//! A slot for a value of a higher floor.

use crate::fork;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

/// A value that a higher floor stores in an object of this floor, which does not know the value's type. The first call makes the
/// value. A child made by `fork` does not drop it, nor do threads that the end of the process stops.
#[derive(Default)]
pub(crate) struct Slot(OnceLock<ManuallyDrop<Box<dyn Any + Send + Sync>>>);

impl Drop for Slot {
    fn drop(&mut self) {
        fork::released(|| drop(self.0.take().map(ManuallyDrop::into_inner)));
    }
}

impl Slot {
    /// The value, made on the first call.
    ///
    /// # Panics
    ///
    /// If the slot holds another type: each slot has one type.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> &T {
        let value = self
            .0
            .get_or_init(|| ManuallyDrop::new(Box::new(T::default())));
        value
            .downcast_ref()
            .expect("a slot holds one type of values")
    }
}
