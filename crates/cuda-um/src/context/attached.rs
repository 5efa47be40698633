//! The list of deferred frees, and the gate, which is defined on top of streams and in a slot of its driver.

use crate::context::capture;
use crate::context::device::{Device, DeviceState};
use crate::context::exclusion::Gate;
use crate::context::reclaim::{Deferred, Which};
use crate::context::runtime::Runtime;
use crate::context::tracker::Use;
use crate::driver::owned::{Handle, Owned};
use crate::error::Result;
use smallvec::SmallVec;
use std::sync::Arc;

impl Device {
    /// Destroys an object when its uses are done. Does not wait.
    pub(crate) fn destroy_after<H: Handle + 'static>(
        &self,
        uses: SmallVec<[Use; 2]>,
        object: Owned<H>,
    ) {
        // If a wait fails or panics, the object is leaked.
        let object = object.kept();
        let _tolerant = self.api().tolerate_captures();
        if uses.iter().all(|used| used.is_done().unwrap_or(false)) {
            return object.end();
        }
        self.state().reclaim.defer(Deferred {
            device: Arc::clone(self.state()),
            uses,
            what: format!("{} on device {}", H::NAME, self.ordinal()),
            bytes: 0,
            waits: false,
            is_foreign: false,
            release: Box::new(move || object.destroy()),
        });
    }
}

impl DeviceState {
    /// A number that no other device of any runtime has while this one is open.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The gate, if host guards of managed memory must keep a device idle.
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.is_gated.then(|| self.driver.gate.get())
    }

    /// Returns true if host guards of managed memory live and must keep this device idle. In a child made by `fork` no guard lives.
    #[inline]
    pub(crate) fn is_beside_guards(&self) -> bool {
        !self.capabilities.concurrent_managed_access
            && self.gate().is_some_and(|gate| gate.is_closed())
    }
}

impl Runtime {
    /// Waits until all buffers that were dropped while in use are freed.
    ///
    /// A buffer that is dropped in use is freed later: by a drop or an allocation that finds its work done, by an allocation that is refused
    /// otherwise, or by this function. The owner of an import is dropped here, by [`Device::synchronize`], by [`Device::trim`], by the drop of
    /// another import, or with the runtime's last handle.
    ///
    /// # Errors
    ///
    /// The first error of a deferred free since the last call. Memory whose work could not be waited for is leaked, never freed in use.
    /// [`Error::Capture`](crate::Error::Capture) if there is such memory and this thread captures.
    pub fn reclaim(&self) -> Result<()> {
        let reclaim = self.deferred();
        if !reclaim.flush(Which::All) {
            return Err(capture::refused("Runtime::reclaim", capture::NO_WAIT));
        }
        reclaim.take_error().map_or(Ok(()), Err)
    }
}
