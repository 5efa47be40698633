//! What the host keeps while it may touch a buffer's memory.

use crate::context::exclusion::Closed;
use crate::context::tracker::{Access, Use};
use crate::error::{Error, Result};
use crate::resource::allocation::RawBuffer;
use crate::resource::cache::{By, Place};

/// The host may touch the memory while this lives, and nothing new is enqueued that it must not overlap.
pub(crate) struct HostAccess<'a> {
    /// Managed memory, whose pages the host takes along.
    held: Option<&'a RawBuffer>,
    _closed: Option<Closed>,
}

impl<'a> HostAccess<'a> {
    /// From now on, once nothing is in the host's way.
    fn begin(raw: &'a RawBuffer, access: Access, closed: Option<Closed>) -> Self {
        let held = raw.is_managed().then_some(raw);
        if let Some(raw) = held {
            let by = By::of(Place::Host, access).unwrap_or(By::Unknown);
            raw.cache.held(by);
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

impl RawBuffer {
    /// Waits until the host may use the memory. It may as long as the result lives and nothing new is enqueued.
    pub(crate) fn wait_for_host(&self, access: Access) -> Result<HostAccess<'_>> {
        self.device().api().origin.check("access by the host")?;
        let _span = crate::telemetry::span!("host wait", buffer = self.id(), ?access);
        let closed = self.gate().map(|gate| gate.close(self.id())).transpose()?;
        self.in_flight
            .before(access)
            .iter()
            .try_for_each(Use::wait)?;
        self.in_flight.prune();
        crate::telemetry::debug!(
            buffer = self.id(),
            bytes = self.bytes(),
            ?access,
            "host guard"
        );
        Ok(HostAccess::begin(self, access, closed))
    }

    /// The same without waiting: [`Error::Busy`] where that would.
    pub(crate) fn try_for_host(&self, access: Access) -> Result<HostAccess<'_>> {
        self.device().api().origin.check("access by the host")?;
        for used in self.in_flight.before(access) {
            if !used.is_done()? {
                return Err(Error::Busy {
                    what: format!("buffer {}", self.id()),
                    by: format!(
                        "work on a stream of device {} uses it",
                        used.stream.ordinal()
                    ),
                });
            }
        }
        let closed = self
            .gate()
            .map(|gate| gate.try_close(self.id()))
            .transpose()?;
        self.in_flight.prune();
        crate::telemetry::debug!(
            buffer = self.id(),
            bytes = self.bytes(),
            ?access,
            "host guard"
        );
        Ok(HostAccess::begin(self, access, closed))
    }
}
