//! A stream as the in-flight tracker sees it: work with numbers, and waits for other streams. What its device has done is an atomic.

use crate::error::Result;
use crate::in_flight::Use;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct StreamInner {
    submitted: AtomicU64,
    done: AtomicU64,
    /// Of each other stream, by address, up to where this one waits for it.
    waits: loom::sync::Mutex<Vec<(usize, u64)>>,
}

impl StreamInner {
    /// Numbers what has just been enqueued.
    pub(crate) fn number(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The device has done the work up to `seq`.
    pub(crate) fn runs_to(&self, seq: u64) {
        self.done.fetch_max(seq, Ordering::AcqRel);
    }

    pub(crate) fn is_known_done(&self, seq: u64) -> bool {
        self.done.load(Ordering::Acquire) >= seq
    }

    pub(crate) fn is_done(&self, seq: u64) -> Result<bool> {
        Ok(self.is_known_done(seq))
    }

    pub(crate) fn wait_for(&self, seq: u64) -> Result<()> {
        self.runs_to(seq);
        Ok(())
    }

    pub(crate) fn order_after(self: &Arc<Self>, used: &Use) -> Result<()> {
        if !Arc::ptr_eq(self, &used.stream) {
            let stream = Arc::as_ptr(&used.stream).addr();
            self.waits.lock().unwrap().push((stream, used.seq));
        }
        Ok(())
    }

    /// Whether what is enqueued now comes after `seq` of that stream.
    pub(crate) fn comes_after(self: &Arc<Self>, stream: &Arc<Self>, seq: u64) -> bool {
        let at = Arc::as_ptr(stream).addr();
        let waits = self.waits.lock().unwrap();
        Arc::ptr_eq(self, stream)
            || stream.is_known_done(seq)
            || waits.iter().any(|(of, to)| *of == at && *to >= seq)
    }
}
