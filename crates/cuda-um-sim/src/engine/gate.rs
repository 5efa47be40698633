//! What keeps streams from their next piece of work.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;

/// Streams that are held until a call waits for one.
pub(crate) struct Hold {
    pub(super) order: u64,
    pub(super) over: AtomicBool,
    /// Who waited.
    pub(super) ended_by: Mutex<Option<ThreadId>>,
}

/// What keeps streams from their next piece of work.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) paused: usize,
    pub(super) hold: Option<(Arc<Hold>, HashSet<usize>)>,
}

impl Gate {
    /// Whether a stream has to wait.
    pub(super) fn is_closed_to(&self, stream: usize) -> bool {
        let held = self
            .hold
            .as_ref()
            .is_some_and(|(_, let_go)| !let_go.contains(&stream));
        self.paused > 0 || held
    }
}

impl Hold {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn ended_by(&self) -> Option<ThreadId> {
        *self.ended_by.lock()
    }
}
