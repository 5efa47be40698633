//! A place for a value of a higher floor.

use std::any::Any;
use std::sync::OnceLock;

/// A value that a higher floor keeps with an object of this one, whose floor does not know its type. The first call makes the value.
#[derive(Default)]
pub(crate) struct Slot(OnceLock<Box<dyn Any + Send + Sync>>);

impl Slot {
    /// The value.
    ///
    /// # Panics
    ///
    /// If the slot holds another type: each slot is for one type.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> &T {
        let value = self.0.get_or_init(|| Box::new(T::default()));
        value
            .downcast_ref()
            .expect("a slot holds one type of values")
    }
}
