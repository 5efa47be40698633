//! The view of memory that streams and observers have.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracker::{Access, InFlight};
use crate::error::Result;
use crate::label::Label;
use std::ops::Range;
use std::sync::Arc;

/// Memory that work on streams uses. The buffers implement it.
pub(crate) trait Tracked {
    fn device(&self) -> &Device;

    fn uses(&self) -> &InFlight;

    fn is_managed(&self) -> bool;

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
    /// The range in bytes from the beginning of the memory.
    pub(crate) bytes: Range<usize>,
    pub(crate) access: Access,
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
