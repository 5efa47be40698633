//! The handle behind a stream.

use crate::context::foreign_owner::ForeignOwner;
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::Result;
use cuda_um_sys::cudaStream_t;
use std::sync::Arc;

/// CUDA's handle of a stream.
pub(crate) struct StreamHandle {
    raw: Owned<cudaStream_t>,
    of: Of,
}

/// Whose stream it is.
enum Of {
    Us,
    /// The owner of a stream of another library. It is dropped after the handle was used last.
    Them(#[expect(dead_code, reason = "it is only dropped")] ForeignOwner),
    /// No stream: work of another library, on streams that are not known. Only a wait for the device waits for it.
    Unknown,
}

#[allow(unsafe_code, reason = "owns handles of streams")]
impl StreamHandle {
    /// The handle of a stream that the library made.
    pub(crate) fn own(raw: Owned<cudaStream_t>) -> Self {
        Self { raw, of: Of::Us }
    }

    /// The handle of a stream of another library, which is not destroyed.
    pub(crate) fn adopted(
        api: &Arc<Api>,
        ordinal: u32,
        raw: cudaStream_t,
        owner: ForeignOwner,
    ) -> Self {
        Self {
            // SAFETY: a kept handle is not destroyed.
            raw: unsafe { Owned::new(api, ordinal, raw) }.kept(),
            of: Of::Them(owner),
        }
    }

    /// Work of another library.
    pub(crate) fn unknown(api: &Arc<Api>, ordinal: u32) -> Self {
        Self {
            // SAFETY: as above; no call gets this handle.
            raw: unsafe { Owned::new(api, ordinal, std::ptr::null_mut()) }.kept(),
            of: Of::Unknown,
        }
    }

    pub(crate) fn raw(&self) -> cudaStream_t {
        self.raw.raw()
    }

    /// Returns true for a stream that the library made.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.of, Of::Us)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.of, Of::Unknown)
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        self.raw.is_idle()
    }
}
