//! The owner of memory: the part of a memory resource that takes memory back.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::{Device, DeviceState};
use crate::context::reclaim::Deferred;
use crate::context::tracker::Access;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::advised::SharedPages;
use std::any::{Any, TypeId};
use std::sync::Arc;

/// The object that an allocation held, which goes back to the caller of `close`: the vector of registered or adopted memory.
pub(crate) type Held = Option<Box<dyn Any + Send + Sync>>;

/// What is the same for all memory of an owner.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// Not a [`Device`], which has the pools: a pool has memory.
    pub(crate) device: Arc<DeviceState>,
    pub(crate) kind: MemoryKind,
    /// The name of the memory in traces and errors.
    pub(crate) name: &'static str,
    /// True if the memory belongs to the caller, which may use it as soon as the drop of the allocation returns.
    pub(crate) is_borrowed: bool,
    /// True for memory of another library, which gets it back as it was.
    pub(crate) is_imported: bool,
    /// False if a free does not wait for the devices.
    pub(crate) free_waits: bool,
    /// False if other devices cannot access the memory even if they can access memory from `cudaMalloc`.
    pub(crate) is_open_to_peers: bool,
    /// True if another owner can free the memory in stream order, with `cudaFreeAsync`.
    pub(crate) can_give: bool,
    /// The type of the object that contains the memory, which the free returns.
    pub(crate) held: Option<TypeId>,
    /// For memory whose pages have several buffers, at one time or one after the other.
    pub(crate) pages: Option<Arc<SharedPages>>,
}

impl Traits {
    /// Of memory that a function of CUDA allocates and another one frees.
    pub(crate) fn of(device: &Arc<DeviceState>, kind: MemoryKind, name: &'static str) -> Self {
        Self {
            device: Arc::clone(device),
            kind,
            name,
            is_borrowed: false,
            is_imported: false,
            free_waits: true,
            is_open_to_peers: true,
            can_give: false,
            held: None,
            pages: None,
        }
    }
}

/// A memory resource as its allocations hold it.
pub(crate) trait Owner: Send + Sync {
    fn traits(&self) -> &Traits;

    /// Allocates from the resource of the memory; `None` if the memory is of the caller or of another library.
    fn allocate_again(
        self: Arc<Self>,
        _device: &Device,
        _bytes: usize,
    ) -> Option<Result<Allocation>> {
        None
    }

    /// Gives a block to another owner, which frees it: it no longer counts. Only if it [can](Traits::can_give).
    fn give(&self, _: &Block) {}

    /// Frees memory that no work uses. After an error the memory is leaked, because a device may still use it.
    ///
    /// # Safety
    ///
    /// The block is memory of this owner, it is freed once, and neither the host nor a device still uses it.
    unsafe fn free(&self, block: Box<Block>) -> Result<Held>;

    /// Takes memory back that work may still use. Does not wait.
    ///
    /// # Safety
    ///
    /// The memory is of this owner, it is released once, the host does not use it, and it has no uses beside those of its block.
    unsafe fn release(&self, released: Released<'_>) {
        // SAFETY: guaranteed by the caller.
        unsafe { released.free_when_idle() }
    }
}

/// Memory on its way back to its owner.
pub(crate) struct Released<'a> {
    pub(crate) owner: &'a Arc<dyn Owner>,
    pub(crate) block: Box<Block>,
    pub(crate) buffer: u64,
}

impl Released<'_> {
    /// Frees the memory when its uses are done and all devices are idle: most owners' frees wait for all of them.
    ///
    /// # Safety
    ///
    /// As for [`Owner::release`].
    pub(crate) unsafe fn free_when_idle(self) {
        let Traits {
            device,
            is_imported,
            free_waits,
            ..
        } = self.owner.traits();
        let uses = self.block.in_flight.before(Access::Write);
        if uses.is_empty() && !free_waits && !is_imported {
            // Memory of the host that no device has used.
            // SAFETY: guaranteed by the caller; there is no work.
            return unsafe { self.free_now(Ok(())) };
        }
        let (buffer, bytes, block) = (self.buffer, self.block.bytes, self.block);
        let owner = Arc::clone(self.owner);
        device.reclaim.defer(Deferred {
            device: Arc::clone(device),
            uses,
            what: format!("buffer {buffer} ({bytes} bytes)"),
            bytes: if *is_imported { 0 } else { bytes },
            waits: *free_waits,
            is_foreign: *is_imported,
            // SAFETY: guaranteed by the caller; all work is over.
            release: Box::new(move || unsafe { owner.free(block) }.map(drop)),
        });
    }

    /// Frees memory whose work is over, and logs an error of the free, or of an earlier wait.
    ///
    /// # Safety
    ///
    /// As for [`Owner::free`].
    pub(crate) unsafe fn free_now(self, waited: Result<()>) {
        let buffer = self.buffer;
        // SAFETY: guaranteed by the caller.
        let freed = unsafe { self.owner.free(self.block) };
        if let Err(error) = waited.and(freed) {
            crate::telemetry::warn!(buffer, %error, "a buffer could not be freed");
        }
    }
}
