//! The parts of devices and runtimes that are defined on top of streams: each is in a slot of its owner.

use crate::context::device::{Device, DeviceState};
use crate::context::exclusion::Gate;
use crate::context::reclaim::Reclaim;
use crate::context::runtime::Runtime;
use crate::error::Result;
use std::sync::Arc;

impl Device {
    /// The queue of memory to be freed later, of the device's runtime.
    pub(crate) fn reclaim(&self) -> &Reclaim {
        self.state().reclaim.get()
    }
}

impl DeviceState {
    /// The gate, if host guards of managed memory must keep some device idle.
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.is_gated.then(|| self.driver.gate.get())
    }
}

impl Runtime {
    /// Waits until everything that was dropped while a device used it has been freed.
    ///
    /// Dropping a buffer in use hands it to a thread that waits for the device; this waits for that thread.
    ///
    /// # Errors
    ///
    /// The first error of that thread since the last call. Memory whose work could not be waited for is leaked, never freed in use.
    pub fn reclaim(&self) -> Result<()> {
        self.api().origin.check("reclaim")?;
        let reclaim: &Reclaim = self.reclaim_slot().get();
        reclaim.flush();
        reclaim.take_error().map_or(Ok(()), Err)
    }
}
