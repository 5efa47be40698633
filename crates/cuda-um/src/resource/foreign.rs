//! Memory of another library.
#![allow(unsafe_code, reason = "uses memory of other libraries by its address")]

use crate::context::device::Device;
use crate::context::foreign_owner::ForeignOwner;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::Address;
use crate::resource::existing::Existing;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::Traits;
use cuda_um_sys::{cudaMemoryType, cudaPointerAttributes};
use std::ptr::NonNull;
use std::sync::Arc;

/// Imports the memory. `owner` is dropped when no tracked work uses it; after an error, at once.
///
/// # Safety
///
/// Until the owner is dropped, the memory is valid for its bytes, and nothing else writes it (or uses it, unless it is read-only).
pub(crate) unsafe fn import(
    device: &Device,
    pointer: NonNull<u8>,
    (bytes, alignment): (usize, usize),
    kind: MemoryKind,
    owner: impl Send + 'static,
) -> Result<Allocation> {
    let owner = ForeignOwner::new(owner);
    let found = check(device, pointer, (bytes, alignment), kind)?;
    let address = Address {
        device: NonNull::new(found.devicePointer.cast()),
        ..Address::of_host(pointer)
    };
    let name = match kind {
        MemoryKind::Managed => "imported managed",
        MemoryKind::Device => "imported device",
        _ => "imported pinned",
    };
    let traits = Traits {
        is_imported: true,
        free_waits: false,
        // Device memory may be of a driver's pool, which only its own device may use.
        is_open_to_peers: kind != MemoryKind::Device,
        ..Traits::of(device.state(), kind, name)
    };
    let imported = Existing::new(traits, move |_, _| {
        drop(owner);
        Ok(None)
    });
    Ok(Allocation::new(Arc::new(imported), address, bytes).of(device))
}

fn check(
    device: &Device,
    pointer: NonNull<u8>,
    (bytes, alignment): (usize, usize),
    expected: MemoryKind,
) -> Result<cudaPointerAttributes> {
    let (api, ordinal) = (device.api(), device.ordinal());
    let first = pointer.as_ptr().cast_const();
    let refused = |found: String, allowed: String| {
        let what = format!("memory at {first:p}");
        Err(Error::Foreign {
            what,
            found,
            allowed,
        })
    };
    if !first.addr().is_multiple_of(alignment) {
        let multiples = format!("multiples of {alignment}");
        return refused("not aligned for its elements".to_owned(), multiples);
    }
    let found = api.pointer_attributes(ordinal, first)?;
    let kind = kind_of(device, (first, expected), &found);
    if kind != Some(expected) {
        let found = kind.map_or("memory that CUDA does not know", MemoryKind::name);
        return refused(found.to_owned(), expected.name().to_owned());
    }
    // Pinned memory is accessible to every device.
    if expected != MemoryKind::Pinned
        && let Ok(owner) = u32::try_from(found.device)
        && owner != ordinal
    {
        return Err(Error::DeviceMismatch {
            what: "the memory",
            expected: ordinal,
            found: owner,
        });
    }
    // The range must not end after its allocation.
    let Some(end) = first.addr().checked_add(bytes) else {
        return refused("beyond the address space".to_owned(), "less".to_owned());
    };
    if let Some(range) = api.pointer_range(ordinal, first)
        && (range.start > first.addr() || end > range.end)
    {
        let room = range.end.saturating_sub(first.addr());
        let allowed = format!("{room} bytes there, to the end of the allocation");
        return refused(format!("{bytes} bytes long"), allowed);
    }
    // Otherwise the driver does not report extents.
    Ok(found)
}

/// The kind of the memory; `None` if CUDA does not know it. The driver may report the managed memory of a pool as host memory (a B300 does).
/// Then its pool tells it from pinned memory, and the address for kernels from the memory of a pool on the host.
fn kind_of(
    device: &Device,
    (address, expected): (*const u8, MemoryKind),
    found: &cudaPointerAttributes,
) -> Option<MemoryKind> {
    let (api, ordinal) = (device.api(), device.ordinal());
    match found.type_ {
        cudaMemoryType::cudaMemoryTypeManaged => Some(MemoryKind::Managed),
        cudaMemoryType::cudaMemoryTypeDevice => Some(MemoryKind::Device),
        cudaMemoryType::cudaMemoryTypeHost
            if expected == MemoryKind::Managed
                && !found.devicePointer.is_null()
                && api.is_of_pool(ordinal, address) =>
        {
            Some(MemoryKind::Managed)
        }
        cudaMemoryType::cudaMemoryTypeHost => Some(MemoryKind::Pinned),
        _ => None,
    }
}
