//! Device memory, with one allocation for each buffer.

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing::Backing;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{MemoryResource, Upstream};

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
            device: device.clone(),
        }
    }
}

impl MemoryResource for DeviceMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }
}

impl Upstream for DeviceMemory {
    fn try_allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let pointer = self.device.api().malloc(self.device.ordinal(), bytes)?;
        let memory = (pointer, Backing::Device);
        Ok(RawBuffer::new(&self.device, memory, Some(pointer), bytes))
    }
}
