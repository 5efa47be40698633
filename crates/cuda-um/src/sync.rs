//! Locks, atomics and threads. `tests/loom` compiles some of the modules with loom's types instead. In unit tests, taking a lock in a child
//! made by `fork` panics, because another thread of the parent may have held it during the fork.
//!
//! **No foreign code runs while a lock is held** (see [`held`]). Each thread counts its locks, so that this can be checked.

mod held;

pub(crate) use crate::sync::held::{
    Turn, after_unlock, assert_may_wait, assert_no_lock_held, caught, has_turn,
};
pub(crate) use std::{sync::atomic, thread};

use crate::sync::held::Held;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

pub(crate) struct RwLock<T>(parking_lot::RwLock<T>);

#[derive(Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

/// The guard of a lock, which is counted. The fields are dropped in this order, so that deferred events run without the lock.
pub(crate) struct Guard<G> {
    guard: G,
    _held: Held,
}

pub(crate) type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;
type ReadGuard<'a, T> = Guard<parking_lot::RwLockReadGuard<'a, T>>;
type WriteGuard<'a, T> = Guard<parking_lot::RwLockWriteGuard<'a, T>>;

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        assert_no_child("a mutex");
        Guard::new(self.0.lock())
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        assert_no_child("a lock to read");
        Guard::new(self.0.read())
    }

    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.0.try_read().map(Guard::new)
    }

    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        assert_no_child("a lock to write");
        Guard::new(self.0.write())
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        held::assert_only_one_held();
        self.0.wait(&mut guard.guard);
    }

    /// Returns when notified, or after `time`.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        held::assert_only_one_held();
        self.0.wait_for(&mut guard.guard, time);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl<G> Guard<G> {
    fn new(guard: G) -> Self {
        Self {
            guard,
            _held: Held::one_more(),
        }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Spins until the condition holds, for at most this time.
pub(crate) fn spin_until(time: Duration, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() && start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
use crate::fork::assert_no_child;

#[cfg(not(test))]
fn assert_no_child(_: &str) {}
