//! A stream: work with numbers and waits for other streams, for the in-flight tracker (what its device has done is an atomic), and copies,
//! which are `call::Api`'s.

use crate::checker::sync::atomic::{AtomicU64, Ordering};
use crate::context::streams::Listed;
use crate::driver::Api;
use crate::error::Result;
use std::sync::{Arc, OnceLock};

#[derive(Default)]
pub(crate) struct StreamInner {
    submitted: AtomicU64,
    done: AtomicU64,
    /// Of each other stream, by address, up to where this one waits for it.
    waits: crate::checker::sync::Mutex<Vec<(usize, u64)>>,
    api: Arc<Api>,
    listed: OnceLock<Arc<Listed>>,
}

/// There is one stream for copies.
#[derive(Clone, Copy)]
pub(crate) struct Handle;

impl StreamInner {
    /// The one stream of a device.
    pub(crate) fn of(api: &Arc<Api>) -> Arc<Self> {
        let stream = Arc::new(Self {
            api: Arc::clone(api),
            ..Self::default()
        });
        let listed = Listed::new(api, 0, Arc::downgrade(&stream));
        let _ = stream.listed.set(Arc::new(listed));
        stream
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub(crate) fn ordinal(&self) -> u32 {
        0
    }

    pub(crate) fn raw(&self) -> Handle {
        Handle
    }

    pub(crate) fn listed(&self) -> &Arc<Listed> {
        self.listed.get().expect("made by `of`")
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    pub(crate) fn completed_to(&self, seq: u64) {
        self.runs_to(seq);
    }

    pub(crate) fn is_known_idle(&self) -> bool {
        self.is_known_done(self.submitted())
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        Ok(self.api.copies_in_flight() == 0)
    }

    /// Waits for all its copies.
    pub(crate) fn finish(&self) -> Result<()> {
        self.api.copies_to(u64::MAX);
        Ok(())
    }

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

    pub(crate) fn order_after(self: &Arc<Self>, other: &Arc<Self>, seq: u64) -> Result<()> {
        if !Arc::ptr_eq(self, other) {
            let stream = Arc::as_ptr(other).addr();
            self.waits.lock().unwrap().push((stream, seq));
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
