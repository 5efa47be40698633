//! An event, as the state holds it.

use std::sync::Arc;

use super::stream::Completion;

/// An event.
#[derive(Clone)]
pub(crate) struct Event {
    /// It is recorded on this device's streams alone.
    pub(super) device: usize,
    pub(crate) timed: bool,
    pub(crate) recorded: Option<Arc<Completion>>,
}
