//! The counter of calls. The models of `tests/loom` compile this file once more, with loom's atomics.

use super::atomic::{AtomicUsize, Ordering};

/// Counts the threads that are in calls. A thread counts itself, then looks for the mark of the end; the end sets the mark, then reads the count.
/// All of it is `SeqCst`, so either the thread sees the mark, or the end sees the thread, and then what it did.
#[repr(align(128))]
pub(super) struct Count(pub(super) AtomicUsize);

impl Count {
    #[inline]
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}
