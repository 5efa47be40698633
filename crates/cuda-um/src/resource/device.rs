//! Device memory, with one allocation for each buffer.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::{MemoryKind, Oversubscription, check_room};
use crate::resource::memory_resource::{Separate, Upstream};
use crate::resource::owner::{Held, Owner, Traits};
use std::sync::Arc;

/// Memory of a device: each buffer is a separate allocation (`cudaMalloc`).
#[doc(alias = "cudaMalloc")]
pub type DeviceMemory = Separate<OfDevice>;

/// The owner of one allocation.
#[derive(Clone, Debug)]
pub struct OfDevice {
    traits: Traits,
    oversubscription: Oversubscription,
}

impl DeviceMemory {
    /// Makes the resource for a device.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            owner: OfDevice {
                traits: Traits::of(device.state(), MemoryKind::Device, "device"),
                oversubscription: Oversubscription::default(),
            },
        }
    }

    /// Sets if the memory may exceed the free memory of an integrated device, which is the host's: full of device memory, the machine no longer
    /// responds. The default is [`Oversubscription::Refused`]. Of other devices, `cudaMalloc` gives only what is free.
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.owner.oversubscription = oversubscription;
        self
    }
}

impl Upstream for OfDevice {
    fn try_allocate(&self, bytes: usize) -> Result<Allocation> {
        let is_refused = self.oversubscription == Oversubscription::Refused;
        if is_refused && self.device().capabilities.integrated {
            let memory = (MemoryKind::Device, self.device().ordinal);
            check_room(memory, bytes, self.device().memory_info()?)?;
        }
        let pointer = self.device().api.malloc(self.device().ordinal, bytes)?;
        let owner = Arc::new(self.clone());
        Ok(Allocation::new(owner, Address::shared(pointer), bytes))
    }
}

impl Owner for OfDevice {
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

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        let (api, ordinal) = (&self.device().api, self.device().ordinal);
        // SAFETY: guaranteed by the caller.
        unsafe { api.free(ordinal, block.address.host) }.map(|()| None)
    }
}
