//! Which part of a thing with several parts a thread uses, so that threads seldom contend.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part, of so many, that this thread uses. More threads share them.
#[inline]
pub(crate) fn own<const PARTS: usize>() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(usize::MAX) });
    // A thread that is exiting has no thread-local storage.
    let own = OWN.try_with(|own| {
        if own.get() == usize::MAX {
            // Relaxed: any number will do.
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    });
    own.unwrap_or(0) % PARTS
}
