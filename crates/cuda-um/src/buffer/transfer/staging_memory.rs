//! Pinned memory that the library owns, for copies that it stages.
#![allow(unsafe_code, reason = "frees its memory")]

use crate::context::device::DeviceState;
use crate::driver::Api;
use crate::error::{Error, Result};
use crate::fork;
use std::ptr::NonNull;
use std::sync::Arc;

/// Pinned memory, which is freed when this is dropped. The owner waits before for the copies that use it.
pub(super) struct StagingMemory {
    api: Arc<Api>,
    ordinal: u32,
    address: NonNull<u8>,
    /// True if a copy may still use the memory and the wait for it failed: then the memory is never freed.
    is_kept: bool,
}

// SAFETY: the owner has the memory for itself; only the thread that has the owner uses it.
unsafe impl Send for StagingMemory {}

impl StagingMemory {
    pub(super) fn allocate(device: &DeviceState, bytes: usize) -> Result<Self> {
        Ok(Self {
            address: device.api.host_alloc(device.ordinal, bytes, false)?,
            api: Arc::clone(&device.api),
            ordinal: device.ordinal,
            is_kept: false,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Returns true if the memory is neither used nor freed: in a child made by `fork`, and on threads that the end of the process stops.
    pub(super) fn is_over(&self) -> bool {
        fork::is_over()
    }

    /// Waits for all work of the device, and returns the error of the wait.
    pub(super) fn wait_for_all(&self) -> Result<()> {
        self.api.device_synchronize(self.ordinal)
    }

    /// After the wait for the copies failed: waits for all work of the device. If this fails as well, the memory is leaked.
    pub(super) fn wait_for_all_or_leak(&mut self, error: Error) {
        // The event may have failed, and not the copies. In a broken context nothing runs, and freeing fails as well.
        let is_over = error.is_sticky() || self.wait_for_all().is_ok();
        if is_over {
            crate::telemetry::debug!(%error, "pinned memory for staging whose copies could not be waited for");
            return;
        }
        self.is_kept = true;
        crate::telemetry::warn!(%error, "pinned memory is leaked: the wait for its copies failed");
    }
}

impl Drop for StagingMemory {
    fn drop(&mut self) {
        if self.is_kept || self.is_over() {
            return;
        }
        // SAFETY: this value owns the memory; its owner waited for the copies that use it.
        if let Err(error) = unsafe { self.api.free_host(self.ordinal, self.address) } {
            crate::telemetry::warn!(%error, "pinned memory for staging could not be freed");
        }
    }
}
