//! Handles of CUDA objects, which are destroyed when they are dropped.

use crate::driver::Api;
use crate::driver::mempool::MemPool;
use crate::error::Result;
use crate::fork;
use cuda_um_sys as sys;
use std::sync::Arc;

/// A handle of a stream, an event, a module or a memory pool.
pub(crate) trait Handle: Copy {
    /// The name of the object in the log.
    const NAME: &'static str;

    /// # Safety: the object is live, belongs to the device, and is destroyed once.
    unsafe fn destroy(self, api: &Api, ordinal: u32) -> Result<()>;
}

macro_rules! handles {
    ($($handle:ty: $name:literal, $destroy:ident;)*) => {$(
        impl Handle for $handle {
            const NAME: &'static str = $name;

            unsafe fn destroy(self, api: &Api, ordinal: u32) -> Result<()> {
                // SAFETY: guaranteed by the caller.
                unsafe { api.$destroy(ordinal, self) }
            }
        }
    )*};
}

handles! {
    sys::cudaStream_t: "a stream", stream_destroy;
    sys::cudaEvent_t: "an event", event_destroy;
    sys::CUmodule: "a module", module_unload;
    sys::cudaGraph_t: "a graph", graph_destroy;
    sys::cudaGraphExec_t: "an executable graph", graph_exec_destroy;
    MemPool: "a memory pool", mem_pool_retire;
}

/// A handle of an object on a device. The drop destroys the object, except in a child made by `fork`, and on threads that the end of the process
/// stops.
pub(crate) struct Owned<H: Handle> {
    api: Arc<Api>,
    ordinal: u32,
    raw: H,
    /// True if the drop leaves the object as it is.
    is_kept: bool,
}

// SAFETY: CUDA's objects may be used from any thread; the handle is only passed to CUDA.
unsafe impl<H: Handle> Send for Owned<H> {}
// SAFETY: as above.
unsafe impl<H: Handle> Sync for Owned<H> {}

impl<H: Handle> Owned<H> {
    /// # Safety: the object is live and belongs to the device. When the value is dropped, CUDA must accept that the object is destroyed.
    pub(crate) unsafe fn new(api: &Arc<Api>, ordinal: u32, raw: H) -> Self {
        Self {
            api: Arc::clone(api),
            ordinal,
            raw,
            is_kept: false,
        }
    }

    /// Makes the drop leak the object. [`destroy`](Self::destroy) still destroys it.
    pub(crate) fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Takes the object: the drop of `self` leaves it as it is.
    pub(crate) fn take(&mut self) -> Self {
        let api = Arc::clone(&self.api);
        let is_kept = std::mem::replace(&mut self.is_kept, true);
        Self {
            api,
            is_kept,
            ..*self
        }
    }

    pub(crate) fn destroy(self) -> Result<()> {
        let kept = self.kept();
        // SAFETY: the object is live, no other value has the handle, and the drop does not destroy the object again.
        unsafe { kept.raw.destroy(&kept.api, kept.ordinal) }
    }

    pub(crate) fn raw(&self) -> H {
        self.raw
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

impl Owned<sys::cudaStream_t> {
    /// Returns true if the stream's work is done.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api.stream_query(self.ordinal, self.raw) }
    }
}

impl<H: Handle> Drop for Owned<H> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        fork::released(|| {
            // SAFETY: the object is live, and no other value has the handle.
            if let Err(error) = unsafe { self.raw.destroy(&self.api, self.ordinal) } {
                let device = self.ordinal;
                crate::telemetry::warn!(device, %error, "{} could not be destroyed", H::NAME);
            }
        });
    }
}
