//! Code that is not the simulator's: references of kernels, `tracing` subscribers, and what their panics carry. None of it runs while a
//! lock of the simulator is held, and none of it can unwind out of the simulator.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An event that waits to be sent.
type Event = Box<dyn FnOnce()>;

thread_local! {
    static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs foreign code. A panic of it ends here, also one of its payload's `Drop`.
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).ok()
}

/// Drops what a panic carried, whose `Drop` may panic in its turn: what that carries is forgotten, as it could go on for ever.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
}

/// Keeps an event for `tracing` until [`send_events`].
pub(crate) fn event(event: impl FnOnce() + 'static) {
    // A thread that is being torn down has no place for it.
    let _ = EVENTS.try_with(|events| events.borrow_mut().push(Box::new(event)));
}

/// Sends what this thread has kept; the caller holds no lock.
pub(crate) fn send_events() {
    let events = EVENTS.try_with(|events| std::mem::take(&mut *events.borrow_mut()));
    for event in events.unwrap_or_default() {
        contain(event);
    }
}

/// Runs what CUDA allows no call of its own: a host function of a stream, or a kernel's reference.
pub(crate) fn forbid_calls<R>(run: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            FORBIDDEN.set(self.0);
        }
    }
    let _before = Before(FORBIDDEN.replace(true));
    run()
}

/// Whether this thread runs such code now.
pub(crate) fn calls_are_forbidden() -> bool {
    FORBIDDEN.get()
}
