//! The state that the host keeps while it may access a buffer's memory.

use crate::context::capture;
use crate::context::exclusion::Closed;
use crate::context::tracker::{Access, Use};
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use std::ops::Range;
use std::sync::Arc;

/// Permits the host to access the memory while this is live and no new overlapping work is enqueued.
pub(crate) struct HostAccess<'a> {
    raw: &'a Allocation,
    access: Access,
    call: &'static str,
    _closed: Option<Closed>,
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

    /// Waits until the host may access a range of the memory. It may do so while the result is live and no new work is enqueued. `call` is the name
    /// of the host's call.
    pub(crate) fn wait_for_host(
        &self,
        bytes: &Range<usize>,
        access: Access,
        call: &'static str,
    ) -> Result<HostAccess<'_>> {
        self.for_host(bytes, (access, call), true)
    }

    /// Waits for the uses that make [`for_host`](Self::for_host) busy, on a thread of the library.
    pub(crate) fn wait_elsewhere(&self, access: Access) -> impl FnOnce() -> Result<()> + use<> {
        let uses = self.in_flight.before(access);
        let gate = self.gate().map(Arc::clone);
        move || {
            Use::wait_for_each(&uses)?;
            gate.map_or(Ok(()), |gate| gate.wait())
        }
    }

    /// Like [`wait_for_host`](Self::wait_for_host); unless it `waits`, returns [`Error::Busy`] if a wait is needed.
    pub(crate) fn for_host(
        &self,
        bytes: &Range<usize>,
        (access, call): (Access, &'static str),
        waits: bool,
    ) -> Result<HostAccess<'_>> {
        // Access to idle memory makes no call of CUDA, which would ask.
        fork::check("access by the host")?;
        if access.is_write() {
            self.check_write()?;
        }
        // Refuses memory that captured work of this thread uses.
        capture::refuse_host(|| self.part_of(bytes.clone(), access), call)?;
        let mut closed = None;
        if waits {
            let gate = self.gate();
            closed = gate.map(|gate| gate.close(self.title())).transpose()?;
        }
        for used in &self.in_flight.before(access) {
            if waits {
                used.wait()?;
            } else if !used.is_done()? {
                let device = used.stream.ordinal();
                return Err(Error::Busy {
                    what: self.title().to_string(),
                    by: format!("work on a stream of device {device} uses it"),
                });
            }
        }
        if !waits {
            let gate = self.gate();
            closed = gate.map(|gate| gate.try_close(self.title())).transpose()?;
        }
        self.in_flight.prune();
        self.declare_host_access(bytes, access);
        // The host's accesses may move its pages.
        if self.migrates() {
            self.pages.held(access);
            self.left_device_for(Location::Host);
        }
        Ok(HostAccess {
            raw: self,
            access,
            call,
            _closed: closed,
        })
    }
}
