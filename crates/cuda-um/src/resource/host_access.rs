//! What the host keeps while it may touch a buffer's memory.

use crate::context::exclusion::Closed;
use crate::context::tracker::Access;
use crate::resource::allocation::RawBuffer;

/// The host may touch the memory while this lives, and nothing new is enqueued that it must not overlap.
pub(crate) struct HostAccess<'a> {
    /// Managed memory, whose pages the host takes along.
    held: Option<&'a RawBuffer>,
    _closed: Option<Closed>,
}

impl<'a> HostAccess<'a> {
    /// From now on, once nothing is in the host's way.
    pub(crate) fn begin(raw: &'a RawBuffer, access: Access, closed: Option<Closed>) -> Self {
        let held = raw.is_managed().then_some(raw);
        if let Some(raw) = held {
            raw.held_by_host(access);
        }
        Self {
            held,
            _closed: closed,
        }
    }
}

impl Drop for HostAccess<'_> {
    fn drop(&mut self) {
        if let Some(raw) = self.held
            && !raw.device().api().origin.is_inherited()
        {
            raw.cache.let_go();
        }
    }
}
