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

#[derive(Clone, Copy)]
pub(crate) struct Foreign {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
    pub(crate) alignment: usize,
    pub(crate) kind: MemoryKind,
}

impl Foreign {
    /// Imports the memory. `owner` is dropped when no tracked work uses it; after an error, at once.
    ///
    /// # Safety
    ///
    /// Until the owner is dropped, the memory is valid for its bytes, and nothing else writes it (or uses it, unless it is read-only).
    pub(crate) unsafe fn import(
        self,
        device: &Device,
        owner: impl Send + 'static,
    ) -> Result<Allocation> {
        let owner = ForeignOwner::new(owner);
        let found = self.check(device)?;
        let address = Address {
            device: NonNull::new(found.devicePointer.cast()),
            ..Address::of_host(self.pointer)
        };
        let name = match self.kind {
            MemoryKind::Managed => "imported managed",
            MemoryKind::Device => "imported device",
            _ => "imported pinned",
        };
        let traits = Traits {
            is_imported: true,
            free_waits: false,
            // Device memory may be of a driver's pool, which only its own device may use.
            is_open_to_peers: self.kind != MemoryKind::Device,
            ..Traits::of(device.state(), self.kind, name)
        };
        let imported = Existing::new(traits, move |_, _| {
            drop(owner);
            Ok(None)
        });
        Ok(Allocation::new(Arc::new(imported), address, self.bytes).of(device))
    }

    fn check(&self, device: &Device) -> Result<cudaPointerAttributes> {
        let (api, ordinal) = (device.api(), device.ordinal());
        let first = self.pointer.as_ptr().cast_const();
        let refused = |found: String, allowed: String| {
            let what = format!("memory at {first:p}");
            Err(Error::Foreign {
                what,
                found,
                allowed,
            })
        };
        if !first.addr().is_multiple_of(self.alignment) {
            let multiples = format!("multiples of {}", self.alignment);
            return refused("not aligned for its elements".to_owned(), multiples);
        }
        let found = api.pointer_attributes(ordinal, first)?;
        let kind = self.kind_of(device, &found);
        if kind != Some(self.kind) {
            let found = kind.map_or("memory that CUDA does not know", MemoryKind::name);
            return refused(found.to_owned(), self.kind.name().to_owned());
        }
        // Pinned memory is accessible to every device.
        if self.kind != MemoryKind::Pinned
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
        let Some(end) = first.addr().checked_add(self.bytes) else {
            return refused("beyond the address space".to_owned(), "less".to_owned());
        };
        if let Some(range) = api.pointer_range(ordinal, first)
            && (range.start > first.addr() || end > range.end)
        {
            let room = range.end.saturating_sub(first.addr());
            let allowed = format!("{room} bytes there, to the end of the allocation");
            return refused(format!("{} bytes long", self.bytes), allowed);
        }
        // Otherwise the driver does not report extents.
        Ok(found)
    }

    /// The kind of the memory; `None` if CUDA does not know it. The driver may report the managed memory of a pool as host memory (a B300 does).
    /// Then its pool tells it from pinned memory, and the address for kernels from the memory of a pool on the host.
    fn kind_of(&self, device: &Device, found: &cudaPointerAttributes) -> Option<MemoryKind> {
        let (api, ordinal) = (device.api(), device.ordinal());
        match found.type_ {
            cudaMemoryType::cudaMemoryTypeManaged => Some(MemoryKind::Managed),
            cudaMemoryType::cudaMemoryTypeDevice => Some(MemoryKind::Device),
            cudaMemoryType::cudaMemoryTypeHost
                if self.kind == MemoryKind::Managed
                    && !found.devicePointer.is_null()
                    && api.is_of_pool(ordinal, self.pointer.as_ptr()) =>
            {
                Some(MemoryKind::Managed)
            }
            cudaMemoryType::cudaMemoryTypeHost => Some(MemoryKind::Pinned),
            _ => None,
        }
    }
}
