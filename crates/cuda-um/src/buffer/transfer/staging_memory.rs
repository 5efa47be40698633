//! Pinned memory that the library owns, for copies that it stages.
#![allow(unsafe_code, reason = "frees its memory")]

use crate::context::device::DeviceState;
use crate::driver::Api;
use crate::error::Result;
use crate::fork;
use crate::process_end::{self, Calls};
use crate::resource::pages::PinnedPages;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Pinned memory, which is freed when this is dropped: then no copy uses it, or it is leaked. Neither happens in a child made by `fork`, and on
/// threads that the end of the process stops.
pub(super) struct StagingMemory {
    api: Arc<Api>,
    ordinal: u32,
    pages: PinnedPages,
    bytes: usize,
}

/// Staging memory that a thread allocates.
pub(super) struct Preparing(Option<JoinHandle<Result<StagingMemory>>>);

impl StagingMemory {
    pub(super) fn allocate(device: &DeviceState, bytes: usize) -> Result<Self> {
        let registers = device.capabilities.host_register;
        Self::of(&device.api, device.ordinal, bytes, registers)
    }

    fn of(api: &Arc<Api>, ordinal: u32, bytes: usize, registers: bool) -> Result<Self> {
        Ok(Self {
            pages: PinnedPages::allocate(api, ordinal, bytes, (false, registers))?,
            api: Arc::clone(api),
            ordinal,
            bytes,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.pages.address.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for StagingMemory {
    fn drop(&mut self) {
        if fork::is_over() {
            return;
        }
        let wait = || self.api.device_synchronize(self.ordinal);
        if let Err(error) = wait()
            // In a broken context nothing runs, and freeing fails as well.
            && !error.is_sticky()
            && wait().is_err()
        {
            crate::telemetry::warn!(%error, "pinned memory is leaked: the wait for its copies failed");
            return;
        }
        // SAFETY: this value owns the memory, and no copy uses it.
        if let Err(error) = unsafe { self.pages.free(&self.api, self.ordinal) } {
            crate::telemetry::warn!(%error, "pinned memory for staging could not be freed");
        }
    }
}

impl Preparing {
    /// Allocates on a thread; `None` if the system gives none.
    pub(super) fn begin(device: &DeviceState, bytes: usize) -> Option<Self> {
        let (api, ordinal) = (Arc::clone(&device.api), device.ordinal);
        let registers = device.capabilities.host_register;
        let allocate = move || {
            // The end of the process waits for it.
            let _calls = Calls::begin().ok_or_else(|| process_end::error("cudaHostAlloc"))?;
            let _tolerant = api.tolerate_captures();
            StagingMemory::of(&api, ordinal, bytes, registers)
        };
        let thread = thread::Builder::new().name("cuda-um-staging".to_owned());
        thread.spawn(allocate).ok().map(|thread| Self(Some(thread)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the memory.
    pub(super) fn finish(mut self) -> Result<StagingMemory> {
        self.join()
            .unwrap_or_else(|| Err(process_end::error("cudaHostAlloc")))
    }

    /// `None` if the thread does not exist in this process, or may have been stopped.
    fn join(&mut self) -> Option<Result<StagingMemory>> {
        let thread = self.0.take()?;
        if fork::is_inherited() || process_end::is_ending() {
            std::mem::forget(thread);
            return None;
        }
        thread.join().ok()
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        drop(self.join());
    }
}
