//! A subscriber that calls the library.

use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{Event, Metadata, Subscriber, span};

/// Calls its closure at each event of the library, except those that the closure causes.
pub struct AtEvents<F> {
    call: F,
    is_called: AtomicBool,
}

impl<F> AtEvents<F> {
    pub fn new(call: F) -> Self {
        let is_called = AtomicBool::new(false);
        Self { call, is_called }
    }
}

impl<F: Fn() + 'static> Subscriber for AtEvents<F>
where
    Self: Send + Sync,
{
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_um"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        if !self.is_called.swap(true, Ordering::Relaxed) {
            (self.call)();
            self.is_called.store(false, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
