//! What a thread holds while no foreign code may run on it: closures, observers, subscribers of `tracing`, wakers and the drops of other libraries'
//! values may call the library, or wait for a thread that does, which would deadlock.
//!
//! Closures and observers are called without locks ([`assert_no_lock_held`]). Events of `tracing`, foreign drops, and the stop of a thread at the
//! end of the process go through [`after_unlock`]. No lock is held in a wait for a device or for another thread.

use crate::sync::locks::thread_local;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const LOCK: usize = 0;
const TURN: usize = 1;
const LATER: usize = 2;
const OUTSIDE: usize = 3;
/// [`Calls`](crate::process_end::Calls).
pub(crate) const CALL: usize = 4;
const SUBSCRIBER: usize = 5;

thread_local! {
    /// How many of each this thread holds. It has no destructor, so a thread that exits can use it.
    static HELD: [Cell<usize>; 6] = const { [const { Cell::new(0) }; 6] };
    /// The number of this thread; 0 before its first use.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// True if `PUT_OFF` is not empty.
    static IS_PUT_OFF: Cell<bool> = const { Cell::new(false) };
    static PUT_OFF: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Counted on this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<const WHAT: usize>(PhantomData<*const ()>);

/// A turn at the gate of devices without concurrent managed access: host guards of managed memory wait for its end. The thread may wait for a
/// device meanwhile, but foreign code that requests such a guard on this thread would deadlock.
pub(crate) type Turn = Held<TURN>;

/// While this lives, the library runs no foreign code of its own accord on this thread: [`later`].
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Later(Held<LATER>);

impl<const WHAT: usize> Held<WHAT> {
    #[inline]
    pub(crate) fn begin() -> Self {
        HELD.with(|held| held[WHAT].set(held[WHAT].get() + 1));
        Self(PhantomData)
    }
}

impl<const WHAT: usize> Drop for Held<WHAT> {
    #[inline]
    fn drop(&mut self) {
        HELD.with(|held| held[WHAT].set(held[WHAT].get() - 1));
        // The others keep no foreign code off.
        if WHAT <= LATER && IS_PUT_OFF.with(Cell::get) {
            run_what_was_put_off();
        }
    }
}

/// How many this thread holds.
#[inline]
pub(crate) fn holds(what: usize) -> usize {
    HELD.with(|held| held[what].get())
}

/// Puts off what the library would do at once without its locks, until the result is dropped: events of `tracing`, drops of other libraries'
/// values, and the stop of this thread while the process ends. For crates that call the library under a lock of their own: drop the result after
/// the lock.
pub fn later() -> Later {
    Later(Held::begin())
}

/// Returns true if this thread has a turn at the gate.
pub(crate) fn has_turn() -> bool {
    holds(TURN) > 0
}

/// Does work now, also if this thread captures.
pub fn outside<R>(work: impl FnOnce() -> R) -> R {
    let _outside = Held::<OUTSIDE>::begin();
    work()
}

/// Returns true within [`outside`].
pub(crate) fn is_outside() -> bool {
    holds(OUTSIDE) > 0
}

/// Calls a subscriber of `tracing`. What it makes the library do sends no events, with which it would never end.
pub(crate) fn to_subscriber(send: impl FnOnce()) {
    let _within = Held::<SUBSCRIBER>::begin();
    send();
}

/// Returns true within [`to_subscriber`].
pub(crate) fn is_in_subscriber() -> bool {
    holds(SUBSCRIBER) > 0
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

/// Returns true if foreign code may run on this thread.
fn is_free() -> bool {
    [LOCK, TURN, LATER].into_iter().all(|what| holds(what) == 0)
}

/// Runs an event as soon as this thread is free. What the event itself puts off runs after it: a chain of drops needs no deep stack.
pub(crate) fn after_unlock(event: impl FnOnce() + 'static) {
    if is_free() {
        let _later = later();
        caught(|| outside(event));
        return;
    }
    // A thread that is exiting may have no list: then the event is lost.
    let put_off = PUT_OFF.try_with(|list| list.borrow_mut().push(Box::new(event)));
    IS_PUT_OFF.with(|is_put_off| is_put_off.set(put_off.is_ok()));
}

#[cold]
fn run_what_was_put_off() {
    if !is_free() {
        return;
    }
    let in_order = later();
    while IS_PUT_OFF.with(|is_put_off| is_put_off.replace(false)) {
        for event in PUT_OFF.try_with(RefCell::take).unwrap_or_default() {
            caught(|| outside(event));
        }
    }
    drop(in_order);
}

/// Runs foreign code and catches its panic, which was reported when it began.
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

/// Must be called before foreign code and before waits. In debug builds, panics if this thread holds a lock of the library.
#[track_caller]
pub(crate) fn assert_no_lock_held(before: &str) {
    assert_locks(0, before);
}

#[track_caller]
pub(super) fn assert_locks(count: usize, before: &str) {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let locks = holds(LOCK);
        assert_eq!(locks, count, "{before}: locks of the library are held");
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::super::Mutex;
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_is_put_off_runs_when_the_thread_is_free_also_after_a_panic() {
        let (first, second) = (Mutex::new(()), Mutex::new(()));
        let said: Rc<RefCell<Vec<&str>>> = Rc::default();
        let say = |word| {
            let said = Rc::clone(&said);
            after_unlock(move || {
                assert_no_lock_held("a word");
                said.borrow_mut().push(word);
                panic!("on purpose");
            });
        };
        say("at once");
        assert_eq!(*said.borrow(), ["at once"]);
        let above = later();
        let (outer, inner) = (first.lock(), second.lock());
        say("later");
        say("last");
        drop(outer);
        let turn = Turn::begin();
        drop((inner, later()));
        drop(turn);
        assert_eq!(*said.borrow(), ["at once"]);
        drop(above);
        assert_eq!(*said.borrow(), ["at once", "later", "last"]);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn foreign_code_under_a_lock_is_a_panic() {
        let lock = Mutex::new(());
        let _guard = lock.lock();
        assert!(catch_unwind(|| assert_no_lock_held("an event")).is_err());
    }
}
