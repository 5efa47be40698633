//! The owner of memory that this library did not allocate with CUDA: of the caller, of the operating system, of another library, or none.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::{Device, DeviceState};
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::MemoryKind;
use crate::resource::owner::{Held, Owner, Traits};
use crate::resource::system;
use crate::sync::Mutex;
use cuda_um_sys::cudaError;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) struct Existing {
    traits: Traits,
    /// Leaked, with the object, unless the memory is freed.
    free: Mutex<Option<ManuallyDrop<Free>>>,
    /// The headroom of the resource that allocated system memory.
    headroom_bytes: Option<usize>,
}

/// Frees memory, and returns the object that contains it. It has no device state: if it is leaked, the runtime ends nevertheless.
type Free = Box<dyn FnOnce(&DeviceState, &Block) -> Result<Held> + Send>;

impl Existing {
    pub(crate) fn new(
        traits: Traits,
        free: impl FnOnce(&DeviceState, &Block) -> Result<Held> + Send + 'static,
    ) -> Self {
        Self {
            traits,
            free: Mutex::new(Some(ManuallyDrop::new(Box::new(free)))),
            headroom_bytes: None,
        }
    }

    /// The owner of host memory that `held` contains, or that is borrowed. `end` returns it to the system.
    pub(crate) fn of_host(
        traits: Traits,
        held: Held,
        end: impl FnOnce(&DeviceState, &Block) -> Result<()> + Send + 'static,
    ) -> Self {
        let traits = Traits {
            is_borrowed: held.is_none(),
            held: held.as_ref().map(|held| (**held).type_id()),
            ..traits
        };
        let held = ManuallyDrop::new(held);
        Self::new(traits, |device, block| {
            end(device, block)?;
            Ok(ManuallyDrop::into_inner(held))
        })
    }

    /// Makes an allocation of system memory, which `held` contains, or which is borrowed. It is valid for `bytes`, does not move, and nothing else
    /// uses it, until the allocation is closed or dropped. The device has pageable memory access.
    pub(crate) fn system_memory(
        device: &Device,
        name: &'static str,
        (pointer, bytes): (NonNull<u8>, usize),
        held: Held,
        headroom_bytes: Option<usize>,
    ) -> Allocation {
        let traits = Traits {
            free_waits: false,
            // Its advice is undone before the memory is anything else.
            pages: Some(Arc::default()),
            ..Traits::of(device.state(), MemoryKind::System, name)
        };
        let owner = Self {
            headroom_bytes,
            ..Self::of_host(traits, held, |_, _| Ok(()))
        };
        Allocation::new(Arc::new(owner), Address::shared(pointer), bytes).of(device)
    }
}

/// The error code for memory that is already registered, in whole or in part.
const ALREADY_REGISTERED: u32 = cudaError::cudaErrorHostMemoryAlreadyRegistered.0;

/// Registers memory (`cudaHostRegister`), which `held` contains, or which is borrowed.
///
/// # Safety
///
/// The memory is valid for `bytes`, and nothing else uses it, until the allocation is closed or dropped.
pub(crate) unsafe fn register(
    device: &Device,
    (pointer, bytes): (NonNull<u8>, usize),
    held: Held,
) -> Result<Allocation> {
    let capabilities = device.capabilities();
    let needs = "a device with the attribute hostRegisterSupported";
    let what = || "registered host memory".to_owned();
    device
        .state()
        .check_attribute(capabilities.host_register, needs, what)?;
    let mapped = capabilities.map_host_memory;
    let (api, ordinal) = (device.api(), device.ordinal());
    // SAFETY: guaranteed by the caller.
    let registered = unsafe { api.host_register(ordinal, pointer, bytes, mapped) };
    if let Err(
        error @ Error::Call {
            code: ALREADY_REGISTERED,
            ..
        },
    ) = registered
    {
        // Other code registered this memory; its registration stays.
        return Err(error);
    }
    let traits = Traits::of(device.state(), MemoryKind::Pinned, "registered");
    let owner = Existing::of_host(traits, held, |device, block| {
        let (api, ordinal) = (&device.api, device.ordinal);
        // SAFETY: the memory is registered, and no longer in use.
        unsafe { api.host_unregister(ordinal, block.address.host) }
    });
    // From here on the drop unregisters, also after an error: CUDA may report a failure of earlier work although the call succeeded.
    let mut allocation =
        Allocation::new(Arc::new(owner), Address::of_host(pointer), bytes).of(device);
    registered?;
    if mapped {
        // SAFETY: the memory is registered and mapped.
        allocation.address.device = Some(unsafe { api.host_device_pointer(ordinal, pointer) }?);
    }
    Ok(allocation)
}

impl Owner for Existing {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(
        self: Arc<Self>,
        device: &Device,
        bytes: usize,
    ) -> Option<Result<Allocation>> {
        let is_system = self.traits.kind == MemoryKind::System;
        is_system.then(|| system::allocate(device, self.headroom_bytes, bytes))
    }

    unsafe fn free(&self, block: Box<Block>) -> Result<Held> {
        if let Some(pages) = &self.traits.pages {
            pages.retire(&block);
            // The memory is freed whether this succeeds or not: advice changes no contents.
            // SAFETY: the advice was for parts of this live memory.
            if let Err(error) = unsafe { pages.undo(&self.traits.device, &block) } {
                crate::telemetry::warn!(%error, "advice for system memory was not undone");
            }
        }
        let free = self.free.lock().take().map(ManuallyDrop::into_inner);
        free.map_or(Ok(None), |free| free(&self.traits.device, &block))
    }
}
