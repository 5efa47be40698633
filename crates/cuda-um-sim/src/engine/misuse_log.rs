//! The log of misuse.

use std::sync::Arc;

use cuda_um_sys::locks::Mutex;

use crate::misuse::Misuse;

/// The misuse that one simulator has found. Clones share one list: each part that can find misuse has a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct MisuseLog(Arc<Mutex<Vec<Misuse>>>);

impl MisuseLog {
    pub(crate) fn report(&self, misuse: Misuse) {
        self.0.lock().push(misuse);
    }

    /// Everything reported so far, in order.
    pub(crate) fn reported(&self) -> Vec<Misuse> {
        self.0.lock().clone()
    }
}
