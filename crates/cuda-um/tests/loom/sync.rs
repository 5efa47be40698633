//! loom's locks with the interface of `parking_lot`, which the modules use.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use crate::checker::sync::atomic;
/// Threads.
pub(crate) use crate::checker::thread;

#[derive(Default)]
pub(crate) struct Mutex<T>(crate::checker::sync::Mutex<T>);

/// None only while `Condvar` has it.
pub(crate) struct MutexGuard<'a, T>(
    Option<crate::checker::sync::MutexGuard<'a, T>>,
    &'a Mutex<T>,
);

#[derive(Default)]
pub(crate) struct Condvar(crate::checker::sync::Condvar);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(crate::checker::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard(Some(guard), self)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("the lock is held");
        let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        guard.0 = Some(held);
    }

    /// The time is over at some point: other threads run before.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.0 = None;
        thread::yield_now();
        *guard = guard.1.lock();
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("the lock is held")
    }
}

// Whether locks are held is not modelled: what the modules would put off, they do at once.

pub(crate) struct Turn;

impl Turn {
    pub(crate) fn begin() -> Self {
        Self
    }
}

pub(crate) fn has_turn() -> bool {
    false
}

pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    outcome.map_err(std::mem::forget).ok()
}

pub(crate) fn after_unlock(event: impl FnOnce() + 'static) {
    event();
}

pub(crate) fn assert_no_lock_held(_: &str) {}

pub(crate) fn assert_may_wait() {}
