//! How long a thread that waits for a device polls before it sleeps.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time_limit;
use std::time::Duration;

/// The time that the program set for a device, in nanoseconds.
// Relaxed: a wait that does not see the change polls for the earlier time.
pub(crate) struct Spin(AtomicU64);

const NOT_SET: u64 = u64::MAX;

impl Default for Spin {
    fn default() -> Self {
        Self(AtomicU64::new(NOT_SET))
    }
}

impl Spin {
    /// The time for a wait for an event, if the program set none.
    pub(crate) const OF_EVENTS: Duration = time_limit(Duration::from_micros(50));

    /// Returns true if the program set a time.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NOT_SET
    }

    /// Returns the time for a wait for an event.
    pub(crate) fn time(&self) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            NOT_SET => Self::OF_EVENTS,
            nanoseconds => time_limit(Duration::from_nanos(nanoseconds)),
        }
    }

    pub(crate) fn set(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(NOT_SET);
        self.0
            .store(nanoseconds.min(NOT_SET - 1), Ordering::Relaxed);
    }
}
