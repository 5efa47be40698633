//! Pinned memory, with one allocation for each buffer.
#![allow(
    unsafe_code,
    reason = "queries the device address of its memory, and frees it"
)]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Separate, Upstream};
use crate::resource::owner::{Held, Owner, Traits};
use crate::resource::pages::PinnedPages;
use std::sync::Arc;

/// Page-locked host memory, which is mapped for the device if the device supports it. Each buffer is a separate allocation
/// (`cudaHostAlloc`, and from 4 MiB on `cudaHostRegister` of huge pages, if the system has them).
#[doc(alias = "cudaHostAlloc")]
pub type PinnedMemory = Separate<Pinned>;

/// The owner of one allocation.
#[derive(Clone, Debug)]
pub struct Pinned {
    traits: Traits,
    /// The memory; `None` until it is allocated.
    pages: Option<PinnedPages>,
}

impl PinnedMemory {
    /// Makes the resource for a device.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            owner: Pinned {
                traits: Traits::of(device.state(), MemoryKind::Pinned, "pinned"),
                pages: None,
            },
        }
    }
}

impl Upstream for Pinned {
    fn try_allocate(&self, bytes: usize) -> Result<Allocation> {
        let (api, ordinal) = (&self.device().api, self.device().ordinal);
        let capabilities = &self.device().capabilities;
        let mapped = capabilities.map_host_memory;
        let ways = (mapped, capabilities.host_register);
        let pages = PinnedPages::allocate(api, ordinal, bytes, ways)?;
        let pointer = pages.address;
        // The allocation owns the memory from here on, also if the next call fails.
        let owner = Arc::new(Self {
            traits: self.traits.clone(),
            pages: Some(pages),
        });
        let unmapped = Allocation::new(owner, Address::of_host(pointer), bytes);
        if !mapped {
            return Ok(unmapped);
        }
        // SAFETY: the memory is mapped, because the device supports it.
        let for_kernels = unsafe { api.host_device_pointer(ordinal, pointer) }?;
        Ok(unmapped.mapped_at(for_kernels))
    }
}

impl Owner for Pinned {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(
        self: Arc<Self>,
        device: &Device,
        bytes: usize,
    ) -> Option<Result<Allocation>> {
        Some(self.allocate_alone(device, bytes))
    }

    unsafe fn free(&self, _: &Block) -> Result<Held> {
        let (api, ordinal) = (&self.device().api, self.device().ordinal);
        if let Some(pages) = &self.pages {
            // SAFETY: guaranteed by the caller.
            unsafe { pages.free(api, ordinal) }?;
        }
        Ok(None)
    }
}
