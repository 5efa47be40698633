//! Locks, atomics and threads. With `cfg(cuda_um_loom)` they are loom's, for the models of `tests/loom`. In unit tests, taking a lock in a
//! child made by `fork` panics, because another thread of the parent may have held it during the fork.
//!
//! **No foreign code runs while a lock is held** (see [`held`]). Each thread counts its locks, so that this can be checked.

mod held;
mod locks;
mod outside;
pub(crate) mod shard;

pub(crate) use crate::sync::held::{
    Closing, Turn, after_unlock, assert_may_wait, assert_no_lock_held, caught, has_turn, is_free,
    keeps_the_gate, own_guards, this_thread,
};
pub use crate::sync::held::{Later, later};
pub(crate) use crate::sync::locks::{atomic, global, thread};
pub(crate) use crate::sync::outside::{is_outside, outside};

use crate::sync::held::Held;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Mutex<T>(locks::Mutex<T>);

pub(crate) struct RwLock<T>(locks::RwLock<T>);

#[derive(Default)]
pub(crate) struct Condvar(locks::Condvar);

/// The guard of a lock, which is counted. The fields are dropped in this order, so that deferred events run without the lock.
pub(crate) struct Guard<G> {
    guard: G,
    _held: Held,
}

pub(crate) type MutexGuard<'a, T> = Guard<locks::MutexGuard<'a, T>>;
type ReadGuard<'a, T> = Guard<locks::RwLockReadGuard<'a, T>>;
type WriteGuard<'a, T> = Guard<locks::RwLockWriteGuard<'a, T>>;

impl<T> Mutex<T> {
    #[cfg(any(not(cuda_um_loom), miri))]
    pub(crate) const fn new(value: T) -> Self {
        Self(locks::Mutex::new(value))
    }

    #[cfg(all(cuda_um_loom, not(miri)))]
    pub(crate) fn new(value: T) -> Self {
        Self(locks::Mutex::new(value))
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
    pub(crate) fn new(value: T) -> Self {
        Self(locks::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        assert_no_child("a lock to read");
        Guard::new(self.0.read())
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
    while !condition() && start.elapsed() < time_limit(time) {
        std::hint::spin_loop();
    }
}

/// A limit for the time that something takes. Zero under loom, because the order of threads must not depend on a clock.
pub(crate) const fn time_limit(limit: Duration) -> Duration {
    if cfg!(cuda_um_loom) {
        Duration::ZERO
    } else {
        limit
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
use crate::fork::assert_no_child;

#[cfg(any(not(test), cuda_um_loom))]
fn assert_no_child(_: &str) {}
