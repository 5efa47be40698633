//! The exports of a storage, and whether their work was waited for. `tests/loans.rs` tries the orders of threads in it.

use super::atomic::{AtomicUsize, Ordering::SeqCst};

#[derive(Default)]
pub(crate) struct Loans {
    /// The exports that live.
    live: AtomicUsize,
    /// All exports so far.
    made: AtomicUsize,
    /// So many of them had ended when a wait began that has returned.
    settled: AtomicUsize,
}

impl Loans {
    pub(crate) fn begin(&self) {
        // In this order: an export that `settle` counts is live for it, or has ended.
        self.live.fetch_add(1, SeqCst);
        self.made.fetch_add(1, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.live.fetch_sub(1, SeqCst);
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.load(SeqCst) > 0
    }

    /// Whether work of an export may not be done.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.made.load(SeqCst) > self.settled.load(SeqCst)
    }

    /// Calls `wait` if there may be work. A thread that comes during another thread's wait waits, too.
    pub(crate) fn settle<E>(&self, wait: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let made = self.made.load(SeqCst);
        if made <= self.settled.load(SeqCst) {
            return Ok(());
        }
        // Before the wait: an export that ends during the wait may have enqueued work after it began.
        let is_live = self.is_live();
        wait()?;
        if !is_live {
            self.settled.fetch_max(made, SeqCst);
        }
        Ok(())
    }
}
