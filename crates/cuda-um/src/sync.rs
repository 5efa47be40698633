//! Locks, atomics and threads. `tests/loom` models some of the modules: there, loom's stand in for them. In unit tests, a lock that a child made by
//! `fork` takes is a panic: in such a child it may be locked for good.

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use std::{sync::atomic, thread};
#[cfg(test)]
pub(crate) use watched::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(test)]
mod watched {
    use crate::fork::assert_no_child;
    pub(crate) use parking_lot::{Condvar, MutexGuard};
    use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

    #[derive(Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            assert_no_child("a mutex");
            self.0.lock()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    pub(crate) struct RwLock<T>(parking_lot::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            assert_no_child("a lock to read");
            self.0.read()
        }

        pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read()
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            assert_no_child("a lock to write");
            self.0.write()
        }
    }
}
