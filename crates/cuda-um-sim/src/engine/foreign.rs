//! Foreign code: `tracing` subscribers, host functions, and the payloads of their panics. It never runs while a lock of the
//! simulator is held, and it cannot unwind through the simulator.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An event that waits to be sent.
type Event = Box<dyn FnOnce()>;

thread_local! {
    static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs foreign code, and catches its panic, also a panic in the `Drop` of the payload.
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Option<R> {
    contain_with_text(run).ok()
}

/// As [`contain`], and returns the message of the panic; it is empty if the payload is not a text.
pub(crate) fn contain_with_text<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| Some((*payload.downcast_ref::<&str>()?).to_owned()));
        discard(payload);
        text.unwrap_or_default()
    })
}

/// Drops the payload of a panic. If its `Drop` panics, the payload of that panic is leaked, because its `Drop` could panic again.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
}

/// Keeps an event for `tracing` until [`send_events`].
pub(crate) fn event(event: impl FnOnce() + 'static) {
    // The list of a thread that is ending is destroyed already: the event is lost.
    let _ = EVENTS.try_with(|events| events.borrow_mut().push(Box::new(event)));
}

/// Sends the events that this thread has kept. The caller holds no lock.
pub(crate) fn send_events() {
    let events = EVENTS.try_with(|events| std::mem::take(&mut *events.borrow_mut()));
    for event in events.unwrap_or_default() {
        contain(event);
    }
}

/// Runs code that must not call CUDA: a host function of a stream.
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

/// Whether this thread runs code that must not call CUDA.
pub(crate) fn calls_are_forbidden() -> bool {
    FORBIDDEN.get()
}
