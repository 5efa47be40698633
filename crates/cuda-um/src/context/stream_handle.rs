//! The handle behind a stream, and which threads it works for.

use crate::context::foreign_owner::ForeignOwner;
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::Result;
use crate::sync::this_thread;
use cuda_um_sys::cudaStream_t;
use std::sync::Arc;

/// CUDA's handle of a stream.
pub(crate) struct StreamHandle {
    raw: Owned<cudaStream_t>,
    scope: Scope,
    /// The owner of a stream of another library. It is dropped after the handle was used last.
    owner: Option<ForeignOwner>,
}

/// The threads for which the handle is one stream.
enum Scope {
    Every,
    /// The per-thread default stream: on other threads the handle is another stream.
    Thread(u64),
    /// No stream: work of another library, on streams that are not known. Only a wait for the device waits for it.
    Unknown,
}

/// `cudaStreamPerThread`.
const PER_THREAD: usize = 2;

#[allow(unsafe_code, reason = "owns handles of streams")]
impl StreamHandle {
    /// The handle of a stream that the library made.
    pub(crate) fn own(raw: Owned<cudaStream_t>) -> Self {
        Self {
            raw,
            scope: Scope::Every,
            owner: None,
        }
    }

    /// The handle of a stream of another library, which is not destroyed.
    pub(crate) fn adopted(
        api: &Arc<Api>,
        ordinal: u32,
        raw: cudaStream_t,
        owner: ForeignOwner,
    ) -> Self {
        Self {
            scope: match raw.addr() {
                PER_THREAD => Scope::Thread(this_thread()),
                _ => Scope::Every,
            },
            // SAFETY: a kept handle is not destroyed.
            raw: unsafe { Owned::new(api, ordinal, raw) }.kept(),
            owner: Some(owner),
        }
    }

    /// Work of another library.
    pub(crate) fn unknown(api: &Arc<Api>, ordinal: u32) -> Self {
        Self {
            // SAFETY: as above; no call gets this handle.
            raw: unsafe { Owned::new(api, ordinal, std::ptr::null_mut()) }.kept(),
            scope: Scope::Unknown,
            owner: None,
        }
    }

    pub(crate) fn raw(&self) -> cudaStream_t {
        self.raw.raw()
    }

    /// Returns true if this thread can enqueue on the stream and query it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        match self.scope {
            Scope::Every => true,
            Scope::Thread(thread) => thread == this_thread(),
            Scope::Unknown => false,
        }
    }

    /// Returns true for a stream that the library made.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_none()
    }

    /// Returns true if other threads cannot record an event after the stream's work.
    pub(crate) fn is_of_one_thread(&self) -> bool {
        matches!(self.scope, Scope::Thread(_))
    }

    /// Returns true if the stream's work is done, and false if this thread cannot tell.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        match self.is_here() {
            true => self.raw.is_idle(),
            false => Ok(false),
        }
    }
}
