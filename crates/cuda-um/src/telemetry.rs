//! Events and spans of `tracing`. A subscriber is foreign code: if it panics, the panic is caught here.
//!
//! Otherwise it would unwind through drops, through cleanup, and between an enqueue and the record of its uses. Therefore nothing else in
//! this crate calls `tracing` (`unwind::one_file_calls_tracing`).

use crate::sync::{caught, events_are_later};
use std::marker::PhantomData;
use tracing::Span;

/// Sends an event at WARN, with the fields and the message of `tracing::warn!`.
macro_rules! warn_ {
    ($($fields:tt)+) => {
        {
            $crate::sync::assert_no_lock_held("an event");
            if !$crate::sync::events_are_later() {
                $crate::sync::caught(|| ::tracing::warn!(target: "cuda_um", $($fields)+));
            }
        }
    };
}

/// Sends an event at DEBUG.
macro_rules! debug_ {
    ($($fields:tt)+) => {
        {
            $crate::sync::assert_no_lock_held("an event");
            if !$crate::sync::events_are_later() {
                $crate::sync::caught(|| ::tracing::debug!(target: "cuda_um", $($fields)+));
            }
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

/// Like `span`, for fields that are copied: if events are put off, the subscriber gets the span when it gets them, and the thread is in it
/// only for a moment.
macro_rules! span_or_later {
    ($($fields:tt)+) => {
        {
            if $crate::sync::events_are_later() && $crate::telemetry::has_subscriber() {
                $crate::sync::after_unlock(move || drop($crate::telemetry::span!($($fields)+)));
            }
            $crate::telemetry::span!($($fields)+)
        }
    };
}

// The name `warn` would conflict with the built-in attribute.
pub(crate) use {debug_ as debug, span_ as span, span_or_later, warn_ as warn};

/// Returns true if events may go to a subscriber.
pub(crate) fn has_subscriber() -> bool {
    tracing::dispatcher::has_been_set()
}

/// A span that the thread is in until this is dropped.
pub(crate) struct Entered {
    /// `None` if no subscriber enables the span.
    span: Option<Span>,
    _on_this_thread: PhantomData<*const ()>,
}

impl Entered {
    #[inline]
    pub(crate) fn enter(make: impl FnOnce() -> Span) -> Self {
        let mut span = None;
        if !events_are_later() {
            caught(|| {
                let made = make();
                if !made.is_disabled() {
                    // If the subscriber panics, the span is not dropped here.
                    let span = span.insert(made);
                    span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
                }
            });
        }
        Self {
            span,
            _on_this_thread: PhantomData,
        }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        // Two calls of the subscriber: with `tracing`'s own guard, panics in both would abort.
        if let Some(span) = self.span.take() {
            caught(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
            caught(|| drop(span));
        }
    }
}
