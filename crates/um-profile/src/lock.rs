//! A lock under which the library is called.

use cuda_um::observe::{Later, later};
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

/// The fields are dropped in this order: what the library put off runs without the lock.
pub(crate) struct Guard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    _later: Later,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard {
            _later: later(),
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
