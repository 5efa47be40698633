//! The state that the host keeps while it may access a buffer's memory.

use crate::context::capture;
use crate::context::exclusion::Closed;
use crate::context::tracker::{Access, Use};
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::location::{By, Place};
use std::ops::Range;

/// Permits the host to access the memory while this is live and no new overlapping work is enqueued.
pub(crate) struct HostAccess<'a> {
    raw: &'a Allocation,
    access: Access,
    call: &'static str,
    _closed: Option<Closed>,
}

impl<'a> HostAccess<'a> {
    /// Begins the access, when no work is in its way.
    fn begin(
        raw: &'a Allocation,
        bytes: &Range<usize>,
        (access, call): (Access, &'static str),
        closed: Option<Closed>,
    ) -> Self {
        raw.declare_host_access(bytes, access);
        // The host's accesses may move its pages.
        if raw.migrates() {
            let by = By::of(Place::Host, access).unwrap_or(By::Unknown);
            raw.pages.held(by);
            raw.left_device_for(Place::Host);
        }
        Self {
            raw,
            access,
            call,
            _closed: closed,
        }
    }
}

impl Drop for HostAccess<'_> {
    fn drop(&mut self) {
        // A guard from before the capture may have written since then.
        if self.access.is_write() {
            let part = || self.raw.part_of(0..self.raw.bytes(), self.access);
            capture::accessed_by_host(part, self.call);
        }
        if self.raw.migrates() {
            self.raw.pages.let_go();
        }
    }
}

impl Allocation {
    /// Declares an access of the host to the simulator, which does not see those of system memory.
    pub(crate) fn declare_host_access(&self, bytes: &Range<usize>, access: Access) {
        if self.kind() == MemoryKind::System {
            let addresses = self.address_range(bytes);
            self.device()
                .api()
                .declare_host_access(addresses, access.is_write());
        }
    }

    /// Refuses access in a child made by `fork`, writes of read-only memory, and memory that captured work of this thread uses.
    fn check_host(&self, bytes: &Range<usize>, access: Access, call: &'static str) -> Result<()> {
        // Access to idle memory makes no call of CUDA, which would ask.
        fork::check("access by the host")?;
        if access.is_write() {
            self.check_write()?;
        }
        capture::refuse_host(|| self.part_of(bytes.clone(), access), call)
    }

    /// Waits until the host may access a range of the memory. It may do so while the result is live and no new work is enqueued. `call` is the name
    /// of the host's call.
    pub(crate) fn wait_for_host(
        &self,
        bytes: &Range<usize>,
        access: Access,
        call: &'static str,
    ) -> Result<HostAccess<'_>> {
        self.check_host(bytes, access, call)?;
        let closed = self
            .gate()
            .map(|gate| gate.close(self.title()))
            .transpose()?;
        self.in_flight
            .before(access)
            .iter()
            .try_for_each(Use::wait)?;
        self.in_flight.prune();
        Ok(HostAccess::begin(self, bytes, (access, call), closed))
    }

    /// Like [`wait_for_host`](Self::wait_for_host), without waiting: returns [`Error::Busy`] if a wait is needed.
    pub(crate) fn try_for_host(
        &self,
        bytes: &Range<usize>,
        access: Access,
        call: &'static str,
    ) -> Result<HostAccess<'_>> {
        self.check_host(bytes, access, call)?;
        for used in self.in_flight.before(access) {
            if !used.is_done()? {
                return Err(Error::Busy {
                    what: self.title().to_string(),
                    by: format!(
                        "work on a stream of device {} uses it",
                        used.stream.ordinal()
                    ),
                });
            }
        }
        let closed = self
            .gate()
            .map(|gate| gate.try_close(self.title()))
            .transpose()?;
        self.in_flight.prune();
        Ok(HostAccess::begin(self, bytes, (access, call), closed))
    }
}
