//! What each thread has: its guards, and a number.

use std::cell::Cell;

thread_local! {
    /// The guards of this thread, in all arenas.
    static GUARDS: Cell<usize> = const { Cell::new(0) };
}

/// The number of guards that this thread has, in all arenas.
pub(crate) fn guards_of_this_thread() -> usize {
    GUARDS.try_with(Cell::get).unwrap_or_default()
}

/// Tells the threads that live now apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadNumber(usize);

/// This thread, faster than with `std::thread::current`. The number of a thread that lives is its own.
pub(crate) fn this_thread() -> ThreadNumber {
    let address = GUARDS.try_with(|count| std::ptr::from_ref(count).addr());
    ThreadNumber(address.unwrap_or_default())
}

pub(crate) fn one_guard_more() {
    GUARDS.with(|count| count.set(count.get() + 1));
}

pub(crate) fn one_guard_less() {
    let _ = GUARDS.try_with(|count| count.set(count.get() - 1));
}
