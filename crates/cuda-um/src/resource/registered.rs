//! Registered memory: host memory of the caller, which the device can access.
#![allow(unsafe_code, reason = "passes memory of the caller to CUDA")]

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::Address;
use crate::resource::existing::Existing;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::{Held, Traits};
use cuda_um_sys::cudaError;
use std::ptr::NonNull;
use std::sync::Arc;

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
