//! Pinned memory that the library owns, for copies that it stages.
#![allow(unsafe_code, reason = "frees its memory")]

use crate::context::capture;
use crate::context::device::DeviceState;
use crate::driver::Api;
use crate::fork;
use crate::process_end::{self, Calls};
use crate::resource::pages::PinnedPages;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Pinned memory, which is freed when this is dropped, after the copies that use it.
pub(super) struct StagingMemory(ManuallyDrop<Pinned>);

/// Freed when it is dropped: then no copy uses it, or it is leaked.
struct Pinned {
    api: Arc<Api>,
    ordinal: u32,
    pages: PinnedPages,
    bytes: usize,
}

/// Staging memory that a thread allocates.
pub(super) struct Preparing(Option<JoinHandle<Option<StagingMemory>>>);

impl StagingMemory {
    /// `None` if CUDA gives no memory: then copies are slower.
    pub(super) fn allocate(device: &DeviceState, bytes: usize) -> Option<Self> {
        let registers = device.capabilities.host_register;
        Self::of(&device.api, device.ordinal, bytes, registers)
    }

    fn of(api: &Arc<Api>, ordinal: u32, bytes: usize, registers: bool) -> Option<Self> {
        let pages = PinnedPages::allocate(api, ordinal, bytes, (false, registers));
        if let Err(error) = &pages {
            let error = error.to_string();
            crate::telemetry::warn!(error, "no pinned memory to stage copies: they take longer");
        }
        Some(Self(ManuallyDrop::new(Pinned {
            pages: pages.ok()?,
            api: Arc::clone(api),
            ordinal,
            bytes,
        })))
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.0.pages.address.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes
    }
}

impl Drop for StagingMemory {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the value.
        capture::drop_after(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Self {
            api,
            ordinal,
            pages,
            ..
        } = self;
        // In a broken context nothing runs, and freeing fails as well.
        let wait = || match api.device_synchronize(*ordinal) {
            Err(error) if !error.is_sticky() => Err(error),
            _ => Ok(()),
        };
        // SAFETY: this value owns the memory, and no copy uses it.
        let free = |()| unsafe { pages.free(api, *ordinal) };
        if let Err(error) = wait().or_else(|_| wait()).and_then(free) {
            crate::telemetry::warn!(%error, "pinned memory for staging is leaked");
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
            let _calls = Calls::begin()?;
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
    pub(super) fn finish(mut self) -> Option<StagingMemory> {
        self.join()
    }

    /// `None` also if the thread does not exist in this process, or may have been stopped.
    fn join(&mut self) -> Option<StagingMemory> {
        let thread = self.0.take()?;
        if fork::is_inherited() || process_end::is_ending() {
            std::mem::forget(thread);
            return None;
        }
        thread.join().ok().flatten()
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        drop(self.join());
    }
}
