//! Pinned memory, with one allocation for each buffer.
#![allow(unsafe_code, reason = "queries the device address of its memory")]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing::Backing;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{MemoryResource, Upstream};

/// Page-locked host memory, which is mapped for the device if the device supports it. Each buffer is a separate allocation
/// (`cudaHostAlloc`).
#[derive(Clone, Debug)]
#[doc(alias = "cudaHostAlloc")]
pub struct PinnedMemory {
    device: Device,
}

impl PinnedMemory {
    /// Makes the resource for a device.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
        }
    }
}

impl MemoryResource for PinnedMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Pinned
    }
}

impl Upstream for PinnedMemory {
    fn try_allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let device = &self.device;
        let mapped = device.capabilities().map_host_memory;
        let pointer = device.api().host_alloc(device.ordinal(), bytes, mapped)?;
        // The buffer owns the memory from here on, also if the next call fails.
        let unmapped = RawBuffer::new(device, (pointer, Backing::Pinned), None, bytes);
        if !mapped {
            return Ok(unmapped);
        }
        // SAFETY: the memory is mapped, because the device supports it.
        let device_pointer =
            unsafe { device.api().host_device_pointer(device.ordinal(), pointer) }?;
        Ok(unmapped.mapped_at(device_pointer))
    }
}
