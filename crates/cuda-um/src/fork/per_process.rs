//! A static of which each process has its own.

use crate::fork::Origin;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The value of a static in this process. A child made by `fork` makes its own at the first use: in its copy of the parent's value, a lock
/// may be held by a thread that the child does not have. That copy is never dropped.
///
/// Not part of the public interface: crates above use it for their own statics.
pub struct PerProcess<T: 'static> {
    current: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

struct Made<T> {
    origin: Origin,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// A static whose value is made at the first use. Two threads may make one each, of which one is dropped.
    #[must_use]
    pub const fn new(make: fn() -> T) -> Self {
        Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            make,
        }
    }

    /// The value of this process. Takes no lock.
    pub fn get(&self) -> &'static T {
        match self.known() {
            Ok(value) => value,
            Err(other) => self.make(other),
        }
    }

    /// The value of this process, if it was used before.
    pub fn get_if_made(&self) -> Option<&'static T> {
        self.known().ok()
    }

    /// The value; or the parent's, or null.
    fn known(&self) -> Result<&'static T, *mut Made<T>> {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: null, or made by `make` below and never freed.
        match unsafe { current.as_ref() } {
            Some(made) if !made.origin.is_inherited() => Ok(&made.value),
            _ => Err(current),
        }
    }

    #[cold]
    fn make(&self, before: *mut Made<T>) -> &'static T {
        let made = Box::into_raw(Box::new(Made {
            origin: Origin::here(),
            value: (self.make)(),
        }));
        let stored =
            self.current
                .compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
        let current = match stored {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: from `Box::into_raw` above, and not stored.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
        // SAFETY: stored by this call or by another thread of this process; never freed.
        unsafe { &(*current).value }
    }
}
