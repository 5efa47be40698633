//! The view of memory that streams and observers have.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracker::{Access, InFlight};
use crate::error::Result;
use crate::label::Label;
use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// Memory that work on streams uses. The buffers implement it.
pub(crate) trait Tracked: Sync {
    /// The number of the memory.
    fn id(&self) -> u64;

    /// The memory in words.
    fn title(&self) -> String;

    fn device(&self) -> &Device;

    /// The memory as its own type, for the planner.
    #[cfg_attr(
        not(feature = "auto-prefetch"),
        allow(dead_code, reason = "only the planner calls it")
    )]
    fn as_any(&self) -> &dyn Any;

    fn is_managed(&self) -> bool;

    /// Refuses a kernel on the device, if it cannot access the memory.
    fn check_kernel_of(&self, device: &Device) -> Result<()>;

    /// The address for kernels, or for the host if kernels cannot access the memory.
    fn kernel_address(&self) -> *mut u8;

    /// Refuses a read-only import.
    fn check_write(&self) -> Result<()>;

    /// Called when a use is recorded: the work may migrate the pages.
    fn used_by(&self, stream: &Arc<StreamInner>, access: Access);

    fn describe(&self) -> Description<'_>;
}

/// A part of memory, and how an operation accesses it.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) memory: &'a dyn Tracked,
    pub(crate) uses: &'a InFlight,
    /// The device state of the memory (`DeviceState::identity`).
    pub(crate) home: usize,
    /// True for a read-only import, and for pinned memory without an address for kernels: then each use is checked.
    pub(crate) is_special: bool,
    /// True if the library keeps where the pages are, so that [`Tracked::used_by`] has an effect even on the memory's own device.
    pub(crate) is_located: bool,
    /// The range in bytes from the beginning of the memory.
    pub(crate) bytes: Range<usize>,
    pub(crate) access: Access,
}

impl Part<'_> {
    /// The first address of the part for kernels, or for the host if kernels cannot access the memory.
    pub(crate) fn kernel_address(&self) -> *mut c_void {
        let start = self.memory.kernel_address();
        start.wrapping_add(self.bytes.start).cast()
    }

    /// Refuses a write to a read-only import.
    pub(crate) fn check_write(&self) -> Result<()> {
        match self.access.is_write() {
            true => self.memory.check_write(),
            false => Ok(()),
        }
    }
}

/// Properties of tracked memory, for observers.
pub(crate) struct Description<'a> {
    pub(crate) id: u64,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    /// The name of the memory's kind.
    pub(crate) kind: &'static str,
    pub(crate) is_managed: bool,
    pub(crate) name: Option<&'a str>,
    pub(crate) label: Option<&'a Label>,
    pub(crate) slab: Option<SlabId>,
}

/// The slab of a pool that contains the memory.
#[derive(Clone, Copy)]
pub(crate) struct SlabId {
    /// The number of the slab's buffer.
    pub(crate) buffer: u64,
    /// The first address of the slab.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}
