//! Slabs of the model's memory.

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;

#[derive(Clone, Copy)]
pub(crate) enum MemoryKind {
    Device,
}

impl MemoryKind {
    pub(crate) fn call(self) -> &'static str {
        "model"
    }

    pub(crate) fn name(self) -> &'static str {
        "a slab"
    }
}

pub(crate) trait Upstream: Send + Sync {
    fn device(&self) -> &Device;

    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }

    fn try_allocate(&self, bytes: usize) -> Result<Allocation>;
}

impl Upstream for Device {
    fn device(&self) -> &Device {
        self
    }

    fn try_allocate(&self, bytes: usize) -> Result<Allocation> {
        Allocation::of(self.memory(), bytes).ok_or_else(|| Error::OutOfMemory {
            call: self.kind().call(),
            subject: self.kind().name().to_owned(),
            requested_bytes: bytes,
            free_bytes: 0,
            total_bytes: 0,
        })
    }
}
