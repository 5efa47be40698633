//! The view of memory that streams and observers have.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracker::{Access, InFlight, Use};
use crate::error::Result;
use crate::label::Label;
use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// Memory that work on streams uses. The buffers implement it.
pub(crate) trait Tracked: Sync {
    fn id(&self) -> u64;

    fn title(&self) -> String;

    fn device(&self) -> &Device;

    /// The memory as its own type, for higher floors.
    fn as_any(&self) -> &dyn Any;

    /// Refuses a kernel on the device, if it cannot access the memory.
    fn check_kernel_of(&self, device: &Device) -> Result<()>;

    /// The address for kernels, or for the host if kernels cannot access the memory.
    fn kernel_address(&self) -> *mut u8;

    fn check_write(&self) -> Result<()>;

    /// Called when a use is recorded: the work may migrate the pages.
    fn used_by(&self, stream: &Arc<StreamInner>, access: Access);

    fn info(&self) -> BufferInfo<'_>;

    fn pages(&self) -> Pages;

    fn addresses(&self, bytes: &Range<usize>) -> Range<*mut u8>;
}

/// A part of a buffer, and how an operation accesses it.
#[derive(Clone)]
pub struct Part<'a> {
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

impl<'a> Part<'a> {
    /// The number of the buffer, which no other buffer of the process has.
    #[must_use]
    pub fn buffer(&self) -> u64 {
        self.memory.id()
    }

    /// The range in bytes from the beginning of the buffer.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// The addresses of the range. They are valid while the buffer lives.
    #[must_use]
    pub fn addresses(&self) -> Range<*mut u8> {
        self.memory.addresses(&self.bytes)
    }

    /// Returns true if the operation writes the part.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.access.is_write()
    }

    /// The device of the buffer.
    #[must_use]
    pub fn device(&self) -> &'a Device {
        self.memory.device()
    }

    /// The properties of the buffer.
    #[must_use]
    pub fn info(&self) -> BufferInfo<'a> {
        self.memory.info()
    }

    /// What is known of the buffer's pages now.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.memory.pages()
    }

    /// Returns true if another library uses the buffer, so that a prefetch would wait on the host until it gives the buffer back.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        let uses = self.uses.before(Access::Move);
        uses.iter().any(Use::must_wait)
    }

    /// The first address of the part for kernels, or for the host if kernels cannot access the memory.
    pub(crate) fn kernel_address(&self) -> *mut c_void {
        let start = self.memory.kernel_address();
        start.wrapping_add(self.bytes.start).cast()
    }

    pub(crate) fn check_write(&self) -> Result<()> {
        match self.access.is_write() {
            true => self.memory.check_write(),
            false => Ok(()),
        }
    }
}

/// The properties of a buffer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BufferInfo<'a> {
    /// The number of the buffer.
    pub id: u64,
    /// The first address.
    pub address: usize,
    /// The size.
    pub bytes: usize,
    /// The name of the kind of memory.
    pub kind: &'static str,
    /// True for managed memory, whose pages migrate.
    pub is_managed: bool,
    /// True for memory of another library.
    pub is_imported: bool,
    /// The name that the program set.
    pub name: Option<&'a str>,
    /// The call that made the buffer.
    pub site: Option<&'static Location<'static>>,
    /// The size of an element.
    pub element_bytes: usize,
    /// The slab of a pool that contains the buffer.
    pub slab: Option<SlabInfo>,
    pub(crate) label: Option<&'a Label>,
}

impl BufferInfo<'_> {
    /// The name, or the type and length (`UnifiedBuffer<f32>[1024]`).
    #[must_use]
    pub fn title(&self) -> String {
        match (self.name, self.label) {
            (Some(name), _) => name.to_owned(),
            (None, Some(label)) => label.describe(self.bytes),
            (None, None) => format!("{} memory", self.kind),
        }
    }
}

/// A slab of a pool.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SlabInfo {
    /// The number of the slab, as of a buffer.
    pub buffer: u64,
    /// The first address.
    pub address: usize,
    /// The size.
    pub bytes: usize,
}

/// What is known of the pages of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pages {
    /// True if the program has given advice for any part of the buffer.
    pub are_advised: bool,
    /// True while host guards of the buffer live.
    pub are_held: bool,
    /// True if pages may have left the device of the buffer.
    pub have_left: bool,
}
