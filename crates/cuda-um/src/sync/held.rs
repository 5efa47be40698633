//! The locks of the library that each thread holds, its turns at the gate of devices without concurrent managed access, and its host guards that
//! close the gate.
//!
//! Foreign code (subscribers of `tracing`, closures, wakers, destructors of panic payloads) may call the library, or wait for a thread that
//! does. If the thread held a lock of the library, it would deadlock. Therefore:
//!
//! - Events of `tracing` and drops of foreign values go through [`after_unlock`].
//! - Closures are called without locks; in debug builds, [`assert_no_lock_held`] panics otherwise.
//! - A crate above that calls the library under a lock of its own has an [`Later`] meanwhile.
//! - A wait for a device or for another thread holds no lock; in debug builds, [`assert_may_wait`] panics otherwise.

use crate::sync::locks::thread_local;
use crate::sync::outside::outside;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

thread_local! {
    /// The number of host guards of this thread that close the gate; shared with them.
    static GUARDS: RefCell<Option<Arc<AtomicUsize>>> = const { RefCell::new(None) };
    static LOCKS: Cell<usize> = const { Cell::new(0) };
    static TURNS: Cell<usize> = const { Cell::new(0) };
    /// The number of live `Later`.
    static LATER: Cell<usize> = const { Cell::new(0) };
    /// The number of this thread; 0 before its first use.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// True if `PUT_OFF` is not empty. It has no destructor, so it can be read while a thread exits.
    static IS_PUT_OFF: Cell<bool> = const { Cell::new(false) };
    /// True while this thread runs what it put off.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static PUT_OFF: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// A lock that this thread holds, counted until dropped.
pub(super) struct Held {
    _on_this_thread: PhantomData<*const ()>,
}

impl Held {
    #[inline]
    pub(super) fn one_more() -> Self {
        LOCKS.with(|locks| locks.set(locks.get() + 1));
        Self {
            _on_this_thread: PhantomData,
        }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        LOCKS.with(|locks| locks.set(locks.get() - 1));
        run_what_was_put_off();
    }
}

/// A turn at the gate: until it is dropped, host guards of managed memory wait for this thread. It is not a lock: the thread may wait for a
/// device meanwhile. But foreign code that requests such a guard on this thread would deadlock.
pub(crate) struct Turn {
    _on_this_thread: PhantomData<*const ()>,
}

impl Turn {
    pub(crate) fn begin() -> Self {
        TURNS.with(|turns| turns.set(turns.get() + 1));
        Self {
            _on_this_thread: PhantomData,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.with(|turns| turns.set(turns.get() - 1));
        run_what_was_put_off();
    }
}

/// A host guard of this thread that closes the gate. While it lives, launches of other threads may wait for it. It may be dropped on another thread.
pub(crate) struct Closing(Arc<AtomicUsize>);

impl Closing {
    pub(crate) fn begin() -> Self {
        let mine =
            GUARDS.try_with(|guards| Arc::clone(guards.borrow_mut().get_or_insert_default()));
        let guards = mine.unwrap_or_default();
        guards.fetch_add(1, Ordering::Relaxed);
        Self(guards)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// While this lives, the library runs no foreign code of its own accord on this thread: [`later`].
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Later {
    _on_this_thread: PhantomData<*const ()>,
}

/// Puts off what the library would do at once without its locks, until the result is dropped: events of `tracing`, drops of other libraries'
/// values, and the stop of this thread while the process ends. For crates that call the library under a lock of their own: drop the result after
/// the lock.
pub fn later() -> Later {
    LATER.with(|later| later.set(later.get() + 1));
    Later {
        _on_this_thread: PhantomData,
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        LATER.with(|later| later.set(later.get() - 1));
        run_what_was_put_off();
    }
}

/// Returns true if this thread has a turn at the gate.
pub(crate) fn has_turn() -> bool {
    TURNS.with(Cell::get) > 0
}

/// Returns a number that no other thread of the process has, also no later one.
pub(crate) fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            // Relaxed: the numbers need only differ.
            thread.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    })
}

/// Returns true if this thread holds no lock, no turn and no [`Later`].
pub(crate) fn is_free() -> bool {
    let counts = [&LOCKS, &TURNS, &LATER];
    counts.iter().all(|count| count.with(Cell::get) == 0)
}

/// Returns true if others may wait at the gate for this thread.
pub(crate) fn keeps_the_gate() -> bool {
    has_turn() || own_guards() > 0
}

/// The number of host guards of this thread that close a gate.
pub(crate) fn own_guards() -> usize {
    let guards = GUARDS.try_with(|guards| guards.borrow().clone());
    guards
        .ok()
        .flatten()
        .map_or(0, |guards| guards.load(Ordering::Relaxed))
}

/// Runs `event` as soon as this thread holds no lock, no turn and no [`Later`]: now, if it holds none. It is no part of a capture, and begins none. A
/// panic in `event` is caught.
pub(crate) fn after_unlock(event: impl FnOnce() + 'static) {
    if is_free() {
        caught(|| outside(event));
        return;
    }
    // A thread that is exiting may have no list: then the event is lost.
    let put_off = PUT_OFF.try_with(|list| list.borrow_mut().push(Box::new(event)));
    IS_PUT_OFF.with(|is_put_off| is_put_off.set(put_off.is_ok()));
}

#[inline]
fn run_what_was_put_off() {
    if IS_PUT_OFF.with(Cell::get) {
        run_now();
    }
}

#[cold]
fn run_now() {
    // What an event that runs here puts off runs in this loop, not within the event.
    if IS_RUNNING.with(|is_running| is_running.replace(true)) {
        return;
    }
    while IS_PUT_OFF.with(Cell::get) && is_free() {
        IS_PUT_OFF.with(|is_put_off| is_put_off.set(false));
        let events = PUT_OFF.try_with(RefCell::take).unwrap_or_default();
        for event in events {
            caught(|| outside(event));
        }
    }
    IS_RUNNING.with(|is_running| is_running.set(false));
}

/// Runs `body`; returns `None` if it panics.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(panic) => {
            // The payload's destructor is foreign code, which may panic as well.
            std::mem::forget(panic);
            None
        }
    }
}

/// Must be called before foreign code runs.
///
/// # Panics
///
/// In debug builds, if this thread holds a lock of the library.
#[track_caller]
pub(crate) fn assert_no_lock_held(before: &str) {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let locks = LOCKS.with(Cell::get);
        assert_eq!(
            locks, 0,
            "{before}: this thread holds lock(s) of the library"
        );
    }
}

/// Must be called before a wait for a device or another thread.
///
/// # Panics
///
/// In debug builds, if this thread holds a lock of the library.
#[track_caller]
pub(crate) fn assert_may_wait() {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let locks = LOCKS.with(Cell::get);
        assert_eq!(locks, 0, "a wait: this thread holds lock(s) of the library");
    }
}

/// Like [`assert_may_wait`], for a wait that releases one lock.
#[track_caller]
pub(super) fn assert_only_one_held() {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let locks = LOCKS.with(Cell::get);
        assert_eq!(locks, 1, "a wait: this thread holds other lock(s), too");
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::super::Mutex;
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_is_put_off_runs_when_the_last_lock_is_released() {
        let (first, second) = (Mutex::new(()), Mutex::new(()));
        let said: Rc<RefCell<Vec<&str>>> = Rc::default();
        let say = |word| {
            let said = Rc::clone(&said);
            after_unlock(move || {
                assert_no_lock_held("a word");
                said.borrow_mut().push(word);
            });
        };
        say("at once");
        assert_eq!(*said.borrow(), ["at once"]);
        let (outer, inner) = (first.lock(), second.lock());
        say("later");
        drop(outer);
        let turn = Turn::begin();
        drop(inner);
        assert_eq!(*said.borrow(), ["at once"]);
        drop(turn);
        assert_eq!(*said.borrow(), ["at once", "later"]);
    }

    #[test]
    fn events_are_sent_after_the_lock_of_a_crate_above() {
        let said = Rc::new(Cell::new(0));
        let outer = later();
        let lock = Mutex::new(());
        let guard = lock.lock();
        let also = Rc::clone(&said);
        after_unlock(move || also.set(also.get() + 1));
        drop(guard);
        drop(later());
        assert!(!is_free() && said.get() == 0);
        drop(outer);
        assert!(is_free() && said.get() == 1);
    }

    #[test]
    fn a_panic_in_what_was_put_off_stops_nothing() {
        let lock = Mutex::new(());
        let runs = Rc::new(Cell::new(0));
        let guard = lock.lock();
        for _ in 0..2 {
            let runs = Rc::clone(&runs);
            after_unlock(move || {
                runs.set(runs.get() + 1);
                panic!("on purpose");
            });
        }
        drop(guard);
        assert_eq!(runs.get(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn foreign_code_under_a_lock_is_a_panic() {
        let lock = Mutex::new(());
        let _guard = lock.lock();
        let outcome = catch_unwind(|| assert_no_lock_held("an event"));
        assert!(outcome.is_err());
        assert!(catch_unwind(assert_may_wait).is_err());
    }
}
