//! The source of the memory of a buffer, for another buffer.

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::default::DefaultMemory;

/// The resource from which a buffer came. It is the default memory of the device for a buffer that came from there, has no memory, or has
/// memory of the caller or of another library.
pub(crate) struct Again<'a> {
    pub(crate) of: &'a Allocation,
    pub(crate) kind: MemoryKind,
}

impl MemoryResource for Again<'_> {
    fn device(&self) -> &Device {
        self.of.device()
    }

    fn kind(&self) -> MemoryKind {
        self.kind
    }
}

impl Allocate for Again<'_> {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let default = || DefaultMemory::new(self.device(), self.kind).allocate(bytes);
        self.of.allocate_again(bytes).unwrap_or_else(default)
    }
}
