//! Events of `tracing`. Nothing else in this crate calls `tracing` (`unwind::one_file_calls_tracing`).
//!
//! A subscriber is foreign code, which may wait for a lock whose holder calls the library, as that of the standard output. Therefore it is called
//! only while this thread holds no lock of the library: meanwhile events are put off ([`after_unlock`](crate::sync::after_unlock)).

use tracing::level_filters::LevelFilter;

/// Sends an event at WARN, with the fields and the message of `tracing::warn!`. The fields are moved.
macro_rules! warn_ {
    ($($fields:tt)+) => {
        if !$crate::telemetry::is_muted() {
            $crate::sync::after_unlock(move || {
                $crate::sync::to_subscriber(|| ::tracing::warn!(target: "cuda_um", $($fields)+));
            });
        }
    };
}

/// Sends an event at DEBUG. Nothing is moved, and no memory allocated, if no subscriber wants it.
macro_rules! debug_ {
    ($($fields:tt)+) => {
        if $crate::telemetry::is_enabled($crate::telemetry::Level::DEBUG) {
            $crate::sync::after_unlock(move || {
                $crate::sync::to_subscriber(|| ::tracing::debug!(target: "cuda_um", $($fields)+));
            });
        }
    };
}

pub(crate) use tracing::Level;
// The name `warn` would conflict with the built-in attribute.
pub(crate) use {debug_ as debug, warn_ as warn};

/// Returns false if no subscriber wants the level, or it would hear nothing. Calls none.
#[inline]
pub(crate) fn is_enabled(level: Level) -> bool {
    level <= LevelFilter::current() && !is_muted()
}

/// Returns true for what a subscriber itself makes the library do, in a child made by `fork`, and on threads that the end of the process stops.
pub(crate) fn is_muted() -> bool {
    crate::sync::is_in_subscriber() || crate::fork::is_over()
}
