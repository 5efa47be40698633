//! Numbers of buffers.

#[cfg(all(test, not(cuda_um_loom)))]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of IDs that a thread takes at once, so that threads that allocate often do not contend for a counter.
const AT_ONCE: u64 = 256;

/// Returns a number that no other buffer has; never 0. Numbers of one thread increase; numbers of different threads have no order.
pub(super) fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // The next number of this thread. At a multiple of `AT_ONCE`, the thread takes new numbers.
    thread_local!(static OWN: Cell<u64> = const { Cell::new(0) });
    // Relaxed: the numbers need only differ.
    let block = || NEXT.fetch_add(1, Ordering::Relaxed) * AT_ONCE;
    let own = OWN.try_with(|own| {
        let id = match own.get() {
            id if id.is_multiple_of(AT_ONCE) => block(),
            id => id,
        };
        own.set(id + 1);
        id
    });
    // A thread that is exiting has no thread-local storage.
    own.unwrap_or_else(|_| block())
}
