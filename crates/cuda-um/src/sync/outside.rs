//! Work of a thread that is no part of what the thread captures.

use std::cell::Cell;

thread_local! {
    static OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does work now, also if this thread captures.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    struct GoOn(bool);
    impl Drop for GoOn {
        fn drop(&mut self) {
            OUTSIDE.set(self.0);
        }
    }
    let _go_on = GoOn(OUTSIDE.replace(true));
    work()
}

/// Returns true within [`outside`].
pub(crate) fn is_outside() -> bool {
    OUTSIDE.get()
}
