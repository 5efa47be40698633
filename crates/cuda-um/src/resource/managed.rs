//! Managed memory, with one allocation for each buffer.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::{MemoryKind, Oversubscription, Used, check_room, would_oversubscribe};
use crate::resource::memory_resource::{Separate, Upstream};
use crate::resource::owner::{Held, Owner, Traits};
use std::sync::Arc;

/// Managed memory of a device: each buffer is a separate allocation (`cudaMallocManaged`).
#[doc(alias = "cudaMallocManaged")]
#[doc(alias = "managed_memory_resource")]
pub type ManagedMemory = Separate<Managed>;

/// The owner of one allocation.
#[derive(Clone, Debug)]
pub struct Managed {
    traits: Traits,
    oversubscription: Oversubscription,
}

impl ManagedMemory {
    /// Makes the resource for a device, where the memory is first located. A device without managed memory refuses each allocation.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            owner: Managed {
                traits: Traits::of(device.state(), MemoryKind::Managed, "managed"),
                oversubscription: Oversubscription::default(),
            },
        }
    }

    /// Sets if managed memory may exceed the memory of the device. The default is [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.owner.oversubscription = oversubscription;
        self
    }
}

impl Upstream for Managed {
    /// Unless [`Oversubscription::Allowed`], refuses more than the free memory, and more in total than the device has.
    fn try_allocate(&self, bytes: usize) -> Result<Allocation> {
        let device = self.device();
        device.check_managed_memory()?;
        let info = match self.oversubscription {
            Oversubscription::Allowed => {
                device.driver.may_evict(device.ordinal);
                None
            }
            Oversubscription::Refused => Some(device.memory_info()?),
        };
        let ordinal = device.ordinal;
        let driver = &device.driver;
        let total = info.map(|info| info.total_bytes);
        let reserved = driver.reserve(ordinal, bytes, total).map_err(|live| {
            let info = info.unwrap_or_default();
            would_oversubscribe(
                (MemoryKind::Managed, ordinal),
                bytes,
                Used::Managed(live),
                info,
            )
        })?;
        if let Some(info) = info {
            check_room((MemoryKind::Managed, ordinal), bytes, info)?;
        }
        let pointer = device.api.malloc_managed(ordinal, bytes)?;
        // The bytes occupy the device until a free succeeds.
        reserved.keep();
        let owner = Arc::new(self.clone());
        Ok(Allocation::new(owner, Address::shared(pointer), bytes))
    }
}

impl Owner for Managed {
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
        let (state, ordinal) = (self.device(), self.device().ordinal);
        // SAFETY: guaranteed by the caller.
        unsafe { state.api.free(ordinal, block.address.host) }?;
        state.driver.discharge(ordinal, block.bytes);
        Ok(None)
    }
}
