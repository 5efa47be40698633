//! The guards of each thread.

use std::cell::Cell;

thread_local! {
    /// The guards of this thread, in all arenas.
    static GUARDS: Cell<usize> = const { Cell::new(0) };
}

/// The number of guards that this thread has, in all arenas.
pub(crate) fn guards_of_this_thread() -> usize {
    GUARDS.try_with(Cell::get).unwrap_or_default()
}

pub(crate) fn one_guard_more() {
    GUARDS.with(|count| count.set(count.get() + 1));
}

pub(crate) fn one_guard_less() {
    let _ = GUARDS.try_with(|count| count.set(count.get() - 1));
}
