//! The reclaim queue and the gate, which are defined on top of streams. Each is in a slot of its device, runtime or driver.

use crate::context::capture;
use crate::context::device::{Device, DeviceState};
use crate::context::exclusion::Gate;
use crate::context::reclaim::{Deferred, Reclaim};
use crate::context::runtime::Runtime;
use crate::context::tracker::Use;
use crate::driver::owned::{Handle, Owned};
use crate::error::Result;
use crate::fork;
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
        if uses.iter().all(|used| used.is_done().unwrap_or(false)) {
            return object.end();
        }
        self.state().reclaim().defer(Deferred {
            uses,
            what: format!("{} on device {}", H::NAME, self.ordinal()),
            release: Box::new(move || object.destroy()),
        });
    }
}

impl DeviceState {
    /// The queue of deferred frees of the device's runtime.
    pub(crate) fn reclaim(&self) -> &Reclaim {
        self.reclaim.get()
    }

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
            && !fork::is_inherited()
            && self.gate().is_some_and(|gate| gate.is_closed())
    }
}

impl Runtime {
    /// Waits until all buffers that were dropped while in use are freed.
    ///
    /// Dropping a buffer in use passes its memory to a thread that waits for the device and then frees it. This function waits for
    /// that thread.
    ///
    /// # Errors
    ///
    /// The first error of that thread since the last call. Memory whose work could not be waited for is leaked, never freed in use.
    /// [`Error::Capture`](crate::Error::Capture) if that thread waits for the end of a capture of this thread.
    pub fn reclaim(&self) -> Result<()> {
        fork::check("reclaim")?;
        let reclaim: &Reclaim = self.reclaim_slot().get();
        if !reclaim.flush() {
            return Err(capture::refused("Runtime::reclaim", capture::NO_WAIT));
        }
        reclaim.take_error().map_or(Ok(()), Err)
    }
}
