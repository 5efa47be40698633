//! Memory that CUDA allocates for each buffer: managed, device and pinned memory.
#![allow(
    unsafe_code,
    reason = "queries the device address of its memory, and frees it"
)]

use crate::context::device::{Device, DeviceState};
use crate::context::reclaim::Which;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::{MemoryKind, Oversubscription, check_room, counted};
use crate::resource::memory_resource::MemoryResource;
use crate::resource::owner::{Held, Owner, Traits};
use crate::resource::pages::PinnedPages;
use std::sync::Arc;

/// A resource whose buffers are separate allocations.
#[derive(Clone, Debug)]
pub struct Separate<const KIND: u8> {
    device: Device,
    owner: Arc<Cuda>,
}

/// Managed memory of a device, where it is first located: each buffer is a separate allocation (`cudaMallocManaged`). A device without managed
/// memory refuses each allocation.
#[doc(alias = "managed_memory_resource")]
pub type ManagedMemory = Separate<{ MemoryKind::Managed as u8 }>;

/// Memory of a device: each buffer is a separate allocation (`cudaMalloc`).
pub type DeviceMemory = Separate<{ MemoryKind::Device as u8 }>;

/// Page-locked host memory, which is mapped for the device if the device supports it. Each buffer is a separate allocation
/// (`cudaHostAlloc`, and from 4 MiB on `cudaHostRegister` of huge pages, if the system has them).
pub type PinnedMemory = Separate<{ MemoryKind::Pinned as u8 }>;

impl<const KIND: u8> Separate<KIND> {
    /// Makes the resource for a device.
    pub fn new(device: &Device) -> Self {
        let kinds = [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == KIND);
        let kind = kind.expect("the three aliases are the only types");
        Self::with(device, kind, Oversubscription::default())
    }

    /// Sets if managed memory may exceed the memory of the device, and device memory the free memory of an integrated device, which is the host's:
    /// full of device memory, the machine no longer responds. The default is [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(self, oversubscription: Oversubscription) -> Self {
        Self::with(&self.device, self.owner.traits.kind, oversubscription)
    }

    fn with(device: &Device, kind: MemoryKind, oversubscription: Oversubscription) -> Self {
        Self {
            device: device.clone(),
            owner: Arc::new(Cuda::new(device.state(), kind, oversubscription)),
        }
    }
}

impl<const KIND: u8> MemoryResource for Separate<KIND> {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        self.owner.traits.kind
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.owner.allocate(&self.device, bytes)
    }
}

/// The owner of such allocations. A pool allocates its slabs from one.
#[derive(Debug)]
pub(crate) struct Cuda {
    pub(crate) traits: Traits,
    oversubscription: Oversubscription,
    /// The memory of one allocation of pinned memory.
    pages: Option<PinnedPages>,
}

impl Cuda {
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        kind: MemoryKind,
        oversubscription: Oversubscription,
    ) -> Self {
        let name = match kind {
            MemoryKind::Managed => "managed",
            MemoryKind::Device => "device",
            _ => "pinned",
        };
        Self {
            traits: Traits::of(device, kind, name),
            oversubscription,
            pages: None,
        }
    }

    pub(crate) fn allocate(self: &Arc<Self>, device: &Device, bytes: usize) -> Result<Allocation> {
        allocate_alone(device, || self.try_allocate(bytes))
    }

    /// Allocates `bytes`, which is not 0, for [no device](Allocation::of). Never waits, so it may be called with locks held.
    ///
    /// Unless [`Oversubscription::Allowed`], refuses managed memory, and device memory of an integrated device, beyond the free memory, and
    /// more managed memory in total than the device has.
    pub(crate) fn try_allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        let (device, kind) = (&self.traits.device, self.traits.kind);
        let (api, ordinal, can) = (&device.api, device.ordinal, &device.capabilities);
        if kind == MemoryKind::Pinned {
            let ways = (can.map_host_memory, can.host_register);
            let pages = PinnedPages::allocate(api, ordinal, bytes, ways)?;
            let pointer = pages.address;
            // The allocation owns the memory from here on, also if the next call fails.
            let owner = Arc::new(Self {
                traits: self.traits.clone(),
                oversubscription: self.oversubscription,
                pages: Some(pages),
            });
            let mut pinned = Allocation::new(owner, Address::of_host(pointer), bytes);
            if can.map_host_memory {
                // SAFETY: the memory is mapped, because the device supports it.
                let for_kernels = unsafe { api.host_device_pointer(ordinal, pointer) }?;
                pinned.address.device = Some(for_kernels);
            }
            return Ok(pinned);
        }
        let is_managed = kind == MemoryKind::Managed;
        if is_managed {
            device.check_managed_memory()?;
        }
        let is_refused = self.oversubscription == Oversubscription::Refused;
        if is_managed && !is_refused {
            device.driver.may_evict(ordinal);
        }
        let is_checked = is_refused && (is_managed || can.integrated);
        let info = is_checked.then(|| device.memory_info()).transpose()?;
        let total = info.map(|info| info.total_bytes);
        let pointer = counted(kind, device, (bytes, total), || {
            if let Some(info) = info {
                check_room((kind, ordinal), bytes, info)?;
            }
            match is_managed {
                true => api.malloc_managed(ordinal, bytes),
                false => api.malloc(ordinal, bytes),
            }
        })?;
        let owner = Arc::clone(self) as Arc<dyn Owner>;
        Ok(Allocation::new(owner, Address::shared(pointer), bytes))
    }
}

/// Allocates for a buffer. If there is not enough memory, returns what pools keep and what was dropped in use, and tries once more. Must be called
/// without locks.
pub(crate) fn allocate_alone(
    device: &Device,
    allocate: impl Fn() -> Result<Allocation>,
) -> Result<Allocation> {
    let reclaim = &device.state().reclaim;
    reclaim.keep_budget();
    let released = reclaim.released();
    let mut outcome = allocate();
    if matches!(outcome, Err(Error::OutOfMemory { .. })) {
        let trimmed = device.trim_pools();
        let _ = reclaim.flush(Which::Own);
        // Memory that was released between the refusal and the wait counts, too.
        if trimmed > 0 || reclaim.released() != released {
            outcome = allocate();
        }
    }
    outcome.map(|allocation| allocation.of(device))
}

impl Owner for Cuda {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(
        self: Arc<Self>,
        device: &Device,
        bytes: usize,
    ) -> Option<Result<Allocation>> {
        Some(self.allocate(device, bytes))
    }

    unsafe fn free(&self, block: Box<Block>) -> Result<Held> {
        let Traits { device, kind, .. } = &self.traits;
        let (api, ordinal) = (&device.api, device.ordinal);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match &self.pages {
                Some(pages) => pages.free(api, ordinal),
                None => api.free(ordinal, block.address.host),
            }
        }?;
        if *kind == MemoryKind::Managed {
            device.driver.discharge(ordinal, block.bytes);
        }
        Ok(None)
    }
}
