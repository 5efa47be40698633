//! The locks of the standard library without poison, with the interface of `parking_lot`.
//!
//! Why not `parking_lot`: its waiting threads are nodes of one table of the process, on their own stacks. A child made by `fork` has the
//! table, but not the threads, and uses the memory of their stacks again: a lock of the child that meets such a node hangs. A lock of
//! the standard library on Linux is one word (a futex), so a lock that is free at the fork works in the child.
//!
//! ```
//! use cuda_um_sys::locks::{Condvar, Mutex, RwLock};
//! use std::time::Duration;
//!
//! let (mut queue, came, limit) = (Mutex::new(Vec::new()), Condvar::new(), RwLock::new(Duration::from_secs(10)));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         queue.lock().extend([1, 2]);
//!         came.notify_one(); // or `notify_all`
//!     });
//!     let mut held = queue.lock();
//!     held.unlocked(|| println!("another thread can take the lock meanwhile"));
//!     while held.is_empty() {
//!         came.wait_for(&mut held, *limit.read()); // or `wait`
//!     }
//! });
//! assert_eq!(*queue.get_mut(), [1, 2]);
//! ```

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::Duration;

pub use std::sync::{RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};

/// [`std::sync::Mutex`] without poison.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// Holds a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a sync::Mutex<T>,
    /// `None` only during a wait and in [`MutexGuard::unlocked`].
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value of a lock that ends.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: &self.0,
            held: Some(lock(&self.0)),
        }
    }

    /// The lock, or `None` if it is held.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            mutex: &self.0,
            held: Some(held),
        })
    }

    /// The value, which is borrowed alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T: ?Sized>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn take(&mut self) -> sync::MutexGuard<'a, T> {
        self.held.take().expect("the lock is held")
    }

    /// Calls `work` without the lock and takes the lock again, also after a panic.
    pub fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        struct Locks<'g, 'a, T: ?Sized>(&'g mut MutexGuard<'a, T>);
        impl<T: ?Sized> Drop for Locks<'_, '_, T> {
            fn drop(&mut self) {
                self.0.held = Some(lock(self.0.mutex));
            }
        }

        self.held = None;
        let _locks = Locks(self);
        work()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the lock is held")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the lock is held")
    }
}

/// [`std::sync::RwLock`] without poison.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::Condvar`] without poison. A wait may end without a notification.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Has no waiting thread.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Waits for a notification without the lock.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.take();
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for a notification, or until `time` is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        let held = guard.take();
        let (held, result) = self
            .0
            .wait_timeout(held, time)
            .unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
        result
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{Mutex, MutexGuard, RwLock};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_does_not_poison() {
        let (mutex, value) = (Mutex::new(1), RwLock::new(2));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let (_mutex, _value) = (mutex.lock(), value.write());
            panic!("with both locks");
        }));
        assert!(ended.is_err());
        assert_eq!((*mutex.lock(), *value.read()), (1, 2));
        assert_eq!(mutex.try_lock().as_deref(), Some(&1));
        assert_eq!(mutex.into_inner(), 1);
    }

    #[test]
    fn unlocked_takes_the_lock_again_after_a_panic() {
        let mutex = Mutex::new(1);
        let mut guard = mutex.lock();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            MutexGuard::unlocked(&mut guard, || {
                *mutex.lock() = 2;
                panic!("without the lock");
            })
        }));
        assert!(ended.is_err());
        assert_eq!(*guard, 2);
        assert!(mutex.try_lock().is_none());
    }
}
