//! Numbers of buffers.

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

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::{AT_ONCE, next};
    use std::collections::HashSet;

    #[test]
    fn no_number_is_given_twice() {
        let count = 3 * AT_ONCE + 7;
        let take = || (0..count).map(|_| next()).collect::<Vec<_>>();
        let of_threads: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(of_threads.iter().all(|ids| ids.is_sorted()));
        let all: HashSet<u64> = of_threads.into_iter().flatten().collect();
        assert_eq!(all.len() as u64, 4 * count);
        assert!(!all.contains(&0));
    }
}
