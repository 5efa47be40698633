//! Events and spans of `tracing`. A subscriber is not the library's code: if it panics, the panic ends here.
//!
//! Otherwise it would unwind through drops, through cleanup, and through the time between work that is enqueued and the note of it.
//! So nothing else in this crate calls `tracing` (`unwind::one_file_calls_tracing`).

use crate::sync::caught;
use std::marker::PhantomData;
use tracing::Span;

/// Sends an event at WARN, with the fields and the message of `tracing::warn!`.
macro_rules! warn_ {
    ($($fields:tt)+) => {
        {
            $crate::sync::assert_no_lock_held("an event");
            $crate::sync::caught(|| ::tracing::warn!(target: "cuda_um", $($fields)+));
        }
    };
}

/// Sends an event at DEBUG.
macro_rules! debug_ {
    ($($fields:tt)+) => {
        {
            $crate::sync::assert_no_lock_held("an event");
            $crate::sync::caught(|| ::tracing::debug!(target: "cuda_um", $($fields)+));
        }
    };
}

/// A span at DEBUG, which the thread is in until the result is dropped.
macro_rules! span_ {
    ($($fields:tt)+) => {
        {
            $crate::sync::assert_no_lock_held("a span");
            $crate::telemetry::Entered::enter(|| ::tracing::debug_span!(target: "cuda_um", $($fields)+))
        }
    };
}

// `warn` alone is an attribute of the compiler's.
pub(crate) use {debug_ as debug, span_ as span, warn_ as warn};

/// A span that the thread is in until this is dropped.
pub(crate) struct Entered {
    /// None if no subscriber has it.
    span: Option<Span>,
    _on_this_thread: PhantomData<*const ()>,
}

impl Entered {
    #[inline]
    pub(crate) fn enter(make: impl FnOnce() -> Span) -> Self {
        let mut span = None;
        caught(|| {
            let made = make();
            if !made.is_disabled() {
                // Not dropped here if the subscriber panics.
                let span = span.insert(made);
                span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
            }
        });
        Self {
            span,
            _on_this_thread: PhantomData,
        }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        // Two calls of the subscriber: in `tracing`'s own guard a panic of the first would meet that of the second, and abort.
        if let Some(span) = self.span.take() {
            caught(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
            caught(|| drop(span));
        }
    }
}
