//! Locks, atomics and threads. With `cfg(cuda_um_loom)` they are loom's, for the models of `tests/loom`. A child made by `fork` that waits for a
//! lock in vain is aborted: another thread of the parent held it during the fork.
//!
//! **No foreign code runs while a lock is held** (see [`held`]). Each thread counts its locks, so that this can be checked.

mod held;
mod locks;
pub(crate) mod shard;

pub(crate) use crate::sync::held::{
    CALL, Held, Turn, after_unlock, assert_no_lock_held, caught, has_turn, holds, is_in_subscriber,
    is_outside, this_thread, to_subscriber,
};
pub use crate::sync::held::{Later, later, outside};
pub(crate) use crate::sync::locks::{atomic, global, thread};

use crate::fork;
use crate::process_end;
use crate::sync::held::{LOCK, assert_locks};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Mutex<T>(locks::Mutex<T>);

#[derive(Default)]
pub(crate) struct Condvar(locks::Condvar);

/// The guard of a lock, which is counted. The fields are dropped in this order, so that deferred events run without the lock.
pub(crate) struct MutexGuard<'a, T> {
    guard: locks::MutexGuard<'a, T>,
    _held: Held<LOCK>,
}

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
        let guard = match fork::is_inherited() {
            false => self.0.lock(),
            true => lock_in_child(&self.0),
        };
        let _held = Held::begin();
        MutexGuard { guard, _held }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        assert_locks(1, "a wait for another thread");
        self.0.wait(&mut guard.guard);
    }

    /// Waits until notified, or a while. Returns false if the process ends: the threads that would notify have stopped.
    pub(crate) fn wait_unless_ending<T>(&self, guard: &mut MutexGuard<'_, T>) -> bool {
        if process_end::is_ending() {
            return false;
        }
        match cfg!(cuda_um_loom) {
            true => self.wait(guard),
            false => self.wait_for(guard, Duration::from_millis(100)),
        }
        true
    }

    /// Returns when notified, or after `time`.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        assert_locks(1, "a wait for another thread");
        self.0.wait_for(&mut guard.guard, time);
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
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Returns the number of processors that the process may use. The first call asks the system, for as long as a small copy takes.
pub(crate) fn cores() -> usize {
    static CORES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    // Relaxed: each thread finds the same number.
    if CORES.load(Ordering::Relaxed) == 0 {
        let found = std::thread::available_parallelism().map_or(1, usize::from);
        CORES.store(found, Ordering::Relaxed);
    }
    CORES.load(Ordering::Relaxed)
}

/// Spins until the condition holds, for at most this time. Returns false if it does not hold.
pub(crate) fn spin_until(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    // The clock is read only if the condition does not hold at once.
    let mut start = None;
    loop {
        if condition() {
            return true;
        }
        if start.get_or_insert_with(Instant::now).elapsed() >= time_limit(time) {
            return false;
        }
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

/// Waits for 2 s at most.
#[cold]
fn lock_in_child<T>(mutex: &locks::Mutex<T>) -> locks::MutexGuard<'_, T> {
    let mut held = None;
    spin_until(Duration::from_secs(2), || {
        held = mutex.try_lock();
        held.is_some()
    });
    held.unwrap_or_else(|| {
        process_end::abort("a thread of the parent held a lock of the library during the fork, and this child needs it")
    })
}

#[cfg(all(test, unix, not(miri), not(cuda_um_loom)))]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "fork is a C function")]
    fn a_child_that_needs_a_lock_of_its_parents_thread_is_aborted() {
        fork::cuda_is_used();
        let (lock, mut status) = (Mutex::new(()), 0);
        let held = lock.lock();
        // SAFETY: the child only waits for the lock; the pointer is valid for one write.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                drop(lock.lock());
                libc::_exit(0);
            }
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
        drop(held);
    }
}
