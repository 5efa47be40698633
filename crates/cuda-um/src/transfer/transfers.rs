//! The ring of a device and its options: one copy at a time, and a change of options between two.

use super::options::TransferOptions;
use super::ring::Ring;
use crate::sync::Mutex;

/// What the transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    options: Mutex<TransferOptions>,
    /// It serves one copy at a time: they share one link anyway.
    pub(super) ring: Mutex<Ring>,
}

impl Transfers {
    /// Waits for a copy that is running; the ring is freed, and made anew as copies need it.
    pub(crate) fn configure(&self, options: TransferOptions) {
        let mut ring = self.ring.lock();
        *self.options.lock() = options;
        *ring = Ring::new(options);
    }

    /// How many threads copy at most. Does not wait for a copy.
    pub(super) fn threads(&self) -> usize {
        self.options.lock().threads
    }
}
