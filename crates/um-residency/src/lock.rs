//! The lock of an arena's state. While a thread has it, the layer below puts its events off: a subscriber of `tracing` may use the arena.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use cuda_um_sys::locks::{Condvar, Mutex, MutexGuard};
use um_backend::cuda_um::observe::{Later, later};

#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

/// The fields are dropped in this order: the events come after the lock.
pub(crate) struct Locked<'a, T> {
    guard: MutexGuard<'a, T>,
    _later: Later,
}

impl<T> Lock<T> {
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let _later = later();
        let guard = self.0.lock();
        Locked { guard, _later }
    }
}

impl<T> Locked<'_, T> {
    /// Waits without the lock for a notification, for at most `time`.
    pub(crate) fn wait(&mut self, condvar: &Condvar, time: Duration) {
        condvar.wait_for(&mut self.guard, time);
    }

    /// Runs `work` without the lock. Events are still put off.
    pub(crate) fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        MutexGuard::unlocked(&mut self.guard, work)
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
