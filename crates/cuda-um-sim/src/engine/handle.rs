//! Handles: numbers that name streams, events, pools, modules, kernels and pieces of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The handles of one simulator. Clones share one counter, so that two parts never give the same handle.
#[derive(Clone, Debug)]
pub(crate) struct Handles(Arc<AtomicUsize>);

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles(Arc::new(AtomicUsize::new(0x1000)))
    }

    /// A new handle, greater than every earlier one. It is never 0, 1 or 2, which name the default streams.
    pub(crate) fn fresh(&self) -> usize {
        const STEP: usize = 16;
        // Relaxed: the numbers need only differ.
        self.0.fetch_add(STEP, Ordering::Relaxed) + STEP
    }
}
