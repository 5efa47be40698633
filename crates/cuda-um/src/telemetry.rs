//! Events and spans of `tracing`. Nothing else in this crate calls `tracing` (`unwind::one_file_calls_tracing`).
//!
//! A subscriber is foreign code:
//!
//! - It may wait for a lock whose holder calls the library, as that of the standard output. Therefore it is called only while this thread
//!   holds no lock of the library, and no host guard for which launches of other threads may wait: meanwhile events are put off, and spans are not
//!   sent ([`send`]).
//! - It may panic. The panic is caught; otherwise it would unwind through drops, through cleanup, and between an enqueue and the record of its
//!   uses.
//! - It may use buffers and streams. A capture of the thread does not record that ([`outside`]).

use crate::sync::{caught, may_send, outside, send};
use std::marker::PhantomData;
use tracing::Span;
use tracing::level_filters::LevelFilter;

/// Sends an event at WARN, with the fields and the message of `tracing::warn!`. The fields are moved.
macro_rules! warn_ {
    ($($fields:tt)+) => {
        $crate::sync::send(move || ::tracing::warn!(target: "cuda_um", $($fields)+))
    };
}

/// Sends an event at DEBUG. Nothing is moved, and no memory allocated, if no subscriber wants it.
macro_rules! debug_ {
    ($($fields:tt)+) => {
        if $crate::telemetry::is_enabled($crate::telemetry::Level::DEBUG) {
            $crate::sync::send(move || ::tracing::debug!(target: "cuda_um", $($fields)+));
        }
    };
}

/// A span at DEBUG, which the thread is in until the result is dropped.
macro_rules! span_ {
    ($($fields:tt)+) => {
        $crate::telemetry::Entered::enter(|| ::tracing::debug_span!(target: "cuda_um", $($fields)+))
    };
}

pub(crate) use tracing::Level;
// The name `warn` would conflict with the built-in attribute.
pub(crate) use {debug_ as debug, span_ as span, warn_ as warn};

/// Returns false if no subscriber wants the level. Calls none.
#[inline]
pub(crate) fn is_enabled(level: Level) -> bool {
    level <= LevelFilter::current()
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
        Self {
            span: match is_enabled(Level::DEBUG) && may_send() {
                true => enter(make),
                false => None,
            },
            _on_this_thread: PhantomData,
        }
    }

    /// No span.
    pub(crate) fn none() -> Self {
        Self {
            span: None,
            _on_this_thread: PhantomData,
        }
    }
}

#[cold]
fn enter(make: impl FnOnce() -> Span) -> Option<Span> {
    let mut span = None;
    let enter = || {
        let made = make();
        if !made.is_disabled() {
            // If the subscriber panics, the span is not dropped here.
            let span = span.insert(made);
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        }
    };
    caught(|| outside(enter));
    span
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        // Two calls of the subscriber: with `tracing`'s own guard, panics in both would abort.
        if let Some(span) = self.span.take() {
            send(move || {
                caught(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
                drop(span);
            });
        }
    }
}
