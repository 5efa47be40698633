//! Device memory, with one allocation for each buffer.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, Upstream};
use crate::resource::owner::{Held, Owner};
use std::sync::Arc;

/// Memory of a device: each buffer is a separate allocation (`cudaMalloc`).
#[derive(Clone, Debug)]
#[doc(alias = "cudaMalloc")]
pub struct DeviceMemory {
    device: Device,
}

impl DeviceMemory {
    /// Makes the resource for a device.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.for_memory(),
        }
    }
}

impl Upstream for DeviceMemory {
    fn try_allocate(&self, bytes: usize) -> Result<Allocation> {
        let pointer = self.device.api().malloc(self.device.ordinal(), bytes)?;
        let owner = Arc::new(self.clone());
        Ok(Allocation::new(owner, Address::shared(pointer), bytes))
    }
}

impl Owner for DeviceMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }

    fn allocate_again(self: Arc<Self>, bytes: usize) -> Option<Result<Allocation>> {
        Some(self.allocate(bytes))
    }

    fn name(&self) -> &'static str {
        "device"
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: guaranteed by the caller.
        unsafe { api.free(ordinal, block.address.host) }.map(|()| None)
    }
}
