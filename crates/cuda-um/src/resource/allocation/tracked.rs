//! Allocations as streams and observers have them.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracked::{BufferInfo, Pages, Tracked};
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

impl Tracked for Allocation {
    fn id(&self) -> u64 {
        self.id
    }

    fn title(&self) -> String {
        self.title().to_string()
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    #[cold]
    fn check_kernel_of(&self, device: &Device) -> Result<()> {
        if !device.runtime().is_same(self.device().runtime()) {
            return Err(Error::RuntimeMismatch { what: "the buffer" });
        }
        let is_mapped =
            !self.is_host_memory() || self.bytes() == 0 || self.device_pointer().is_some();
        let needs = "a device that maps host memory";
        device.state().check_attribute(is_mapped, needs, || {
            let name = self.traits().name;
            format!("a kernel's use of {name} memory (buffer {})", self.id)
        })?;
        if self.kind() == MemoryKind::System {
            device
                .state()
                .check_pageable_access("a kernel's use of system memory")?;
        }
        let (expected, found) = (device.ordinal(), self.device().ordinal());
        let is_peers = self.is_device_memory() && self.traits().is_open_to_peers && {
            let peers = device.state().driver.peers.lock();
            peers.contains(&(expected, found))
        };
        if !self.migrates() && self.bytes() > 0 && !is_peers && expected != found {
            return Err(Error::DeviceMismatch {
                what: "a buffer of the launch",
                expected,
                found,
            });
        }
        Ok(())
    }

    #[inline]
    fn kernel_address(&self) -> *mut u8 {
        self.device_pointer().unwrap_or(self.pointer()).as_ptr()
    }

    fn check_write(&self) -> Result<()> {
        self.check_write()
    }

    fn used_by(&self, stream: &Arc<StreamInner>, access: Access) {
        let place = Location::Device(stream.ordinal());
        // For most small buffers there is nothing to track.
        let is_tracked = self.is_located || stream.ordinal() != self.device().ordinal();
        if is_tracked && access != Access::Move && self.migrates() {
            self.pages.touched(place, access);
            self.left_device_for(place);
        }
    }

    fn info(&self) -> BufferInfo<'_> {
        BufferInfo {
            id: self.id,
            address: self.pointer().as_ptr().addr(),
            bytes: self.bytes(),
            kind: self.traits().name,
            is_managed: self.is_managed(),
            is_imported: self.traits().is_imported,
            name: self.name(),
            site: self.label.and_then(|label| label.site),
            element_bytes: self.label.map_or(1, |label| label.element_bytes()),
            slab: self.address.slab,
            label: self.label.as_ref(),
        }
    }

    fn pages(&self) -> Pages {
        self.pages.pages()
    }

    fn addresses(&self, bytes: &Range<usize>) -> Range<*mut u8> {
        self.address_range(bytes)
    }
}
