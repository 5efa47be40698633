//! Slabs of the played device's memory.

use super::PoolOptions;
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::RawBuffer;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whose slabs are known by their addresses: not here.
    Managed,
    Device,
}

impl Kind {
    pub(super) fn slab(self, device: &Device, bytes: usize, _: &PoolOptions) -> Result<RawBuffer> {
        RawBuffer::of(device.memory(), bytes).ok_or_else(|| Error::OutOfMemory {
            call: self.call(),
            subject: self.name().to_owned(),
            requested_bytes: bytes,
            free_bytes: 0,
            total_bytes: 0,
        })
    }

    pub(super) fn call(self) -> &'static str {
        "played"
    }

    pub(super) fn name(self) -> &'static str {
        "a slab"
    }
}
