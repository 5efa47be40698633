//! The owner of no memory, for buffers without elements.
#![allow(unsafe_code, reason = "implements the release of memory")]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::{Held, Owner, Released};
use std::sync::Arc;

pub(crate) struct Empty {
    device: Device,
}

impl Empty {
    pub(crate) fn of(device: &Device) -> Arc<dyn Owner> {
        Arc::new(Self {
            device: device.for_memory(),
        })
    }
}

impl Owner for Empty {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Pinned
    }

    fn name(&self) -> &'static str {
        "empty"
    }

    unsafe fn free(&self, _: &Block) -> Result<Held> {
        Ok(None)
    }

    unsafe fn release(&self, _: Released<'_>) {}
}
