//! loom's locks, with the interface of `cuda_um_sys::locks`.

pub(crate) use ::loom::{sync::atomic, thread};

use ::loom::sync;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

/// A static with a lock, which each order of a model makes anew.
macro_rules! global {
    (static $name:ident: $type:ty = $value:expr;) => {
        ::loom::lazy_static! {
            static ref $name: $type = $value;
        }
    };
}
pub(crate) use global;

macro_rules! of_each_thread {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = const { $value:expr };)*) => {
        ::loom::thread_local! { $($(#[$attribute])* static $name: $type = $value;)* }
    };
}
pub(crate) use of_each_thread as thread_local;

#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while `Condvar` has it.
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard {
            mutex: self,
            guard: Some(guard),
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(self.lock())
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("the lock is held")
    }
}

#[derive(Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.guard.take().expect("the lock is held");
        let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        guard.guard = Some(held);
    }

    /// The time ends at some point: other threads run before.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.guard = None;
        thread::yield_now();
        *guard = guard.mutex.lock();
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
