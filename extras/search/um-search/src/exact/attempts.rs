//! What [`Filter::Auto`](super::Filter::Auto) has learned about searches in 8 bits.

use std::sync::atomic::{AtomicU32, Ordering};

/// Launches in half precision after one in 8 bits that left too many targets for a query.
const PATIENCE: u32 = 15;

/// The launches to come in half precision.
// Relaxed: a guess about speed; the results are the same.
#[derive(Debug, Default)]
pub(super) struct Attempts(AtomicU32);

impl Attempts {
    /// The next launches use half precision.
    pub fn have_failed(&self) {
        self.0.store(PATIENCE, Ordering::Relaxed);
    }

    /// True if the next launch of many begins in 8 bits.
    pub fn is_due(&self) -> bool {
        let less = |patience: u32| patience.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_err()
    }
}
