//! Events and spans of `tracing`. A subscriber is not the library's code: if it panics, the panic ends here.
//!
//! Otherwise it would unwind through drops, through cleanup, and through the time between work that is enqueued and the note of it.
//! So nothing else in this crate calls `tracing` (`unwind::one_file_calls_tracing`).

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::Span;

/// Runs `call`, in which a subscriber may run; `None` if it panics.
#[inline]
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    // The payload is not dropped: its `Drop` may panic as well.
    catch_unwind(AssertUnwindSafe(call))
        .map_err(std::mem::forget)
        .ok()
}

/// Sends an event at WARN, with the fields and the message of `tracing::warn!`.
macro_rules! warn_ {
    ($($fields:tt)+) => {
        {
            $crate::telemetry::caught(|| ::tracing::warn!(target: "cuda_um", $($fields)+));
        }
    };
}

/// Sends an event at DEBUG.
macro_rules! debug_ {
    ($($fields:tt)+) => {
        {
            $crate::telemetry::caught(|| ::tracing::debug!(target: "cuda_um", $($fields)+));
        }
    };
}

/// A span at DEBUG, which the thread is in until the result is dropped.
macro_rules! span_ {
    ($($fields:tt)+) => {
        $crate::telemetry::Entered::enter(|| ::tracing::debug_span!(target: "cuda_um", $($fields)+))
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
