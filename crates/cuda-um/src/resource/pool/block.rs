//! Blocks: free blocks with the work that still uses them, and the part of a buffer that belongs to a pool.
#![allow(
    unsafe_code,
    reason = "sends addresses, and passes those of blocks to CUDA"
)]

use crate::context::device::Device;
use crate::context::tracked::SlabId;
use crate::context::tracker::InFlight;
use crate::driver::Api;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::advised::Advised;
use cuda_um_sys::cudaMemoryAdvise;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of a slab that no buffer owns.
pub(crate) struct FreeBlock {
    pub(super) address: Address,
    /// Uses by the former owners' work; `None` for most blocks.
    pub(super) in_flight: Option<Box<InFlight>>,
}

/// The start of a block.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) host: NonNull<u8>,
    /// The address for kernels; `None` for host memory that is not mapped.
    pub(super) device: Option<NonNull<u8>>,
    pub(super) slab: SlabId,
}

impl Address {
    /// The address `bytes` further, in the same slab.
    pub(super) fn offset(self, bytes: usize) -> Self {
        // The address is within a slab, so it is never null.
        let offset = |from: NonNull<u8>| NonNull::new(from.as_ptr().wrapping_add(bytes));
        Self {
            host: offset(self.host).unwrap_or(self.host),
            device: self.device.and_then(offset),
            slab: self.slab,
        }
    }
}

// SAFETY: this is only an address; the owner of the block controls the access to its memory.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The pool of a block.
pub(crate) trait BlockOwner: Send + Sync {
    fn device(&self) -> &Device;

    fn kind(&self) -> MemoryKind;

    /// Takes a block back: one of a class, or a dedicated slab for `None`.
    fn take_back(&self, block: FreeBlock, class: Option<u16>, bytes: usize);

    /// Tracks advice that CUDA is about to receive for a range of addresses.
    fn note_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location);
}

/// The pool's data for a buffer: returns the block when the buffer is dropped.
///
/// It must go through `give_back` once. Otherwise the block is lost, and its slab is never freed.
pub(crate) struct PoolBlock {
    pub(crate) owner: Arc<dyn BlockOwner>,
    /// The block's size in bytes, which may exceed the buffer's.
    pub(super) bytes: usize,
    /// The block's class; `None` for a dedicated slab.
    pub(super) class: Option<u16>,
    pub(super) slab: SlabId,
}

impl PoolBlock {
    /// Returns the block to the pool, with the work that may still use it.
    pub(crate) fn give_back(
        &self,
        (host, device): (NonNull<u8>, Option<NonNull<u8>>),
        in_flight: Option<Box<InFlight>>,
    ) {
        let slab = self.slab;
        let block = FreeBlock {
            address: Address { host, device, slab },
            in_flight,
        };
        self.owner.take_back(block, self.class, self.bytes);
    }

    pub(crate) fn device(&self) -> &Device {
        self.owner.device()
    }

    /// The size in bytes, which may exceed the buffer's.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        self.owner.kind()
    }

    pub(crate) fn slab(&self) -> SlabId {
        self.slab
    }

    /// Tracks advice that CUDA is about to receive for a range of the block's addresses. It is undone before the block has another owner.
    pub(crate) fn note_advice(
        &self,
        range: Range<usize>,
        advice: cudaMemoryAdvise,
        location: Location,
    ) {
        self.owner.note_advice(range, advice, location);
    }
}

impl FreeBlock {
    /// Uses by the former owners' work.
    pub(super) fn left(self) -> InFlight {
        self.in_flight.map_or_else(InFlight::default, |left| *left)
    }

    pub(super) fn at(&self) -> usize {
        self.address.host.as_ptr().addr()
    }

    /// Undoes advice for a range that began in a block of the same slab.
    pub(super) fn undo(&self, api: &Api, ordinal: u32, advised: &Advised) -> Result<()> {
        let start = self.address.host.as_ptr();
        let Range { start: from, end } = advised.range.clone();
        let range = start.with_addr(from)..start.with_addr(end);
        // SAFETY: the range was checked when the advice was set for a buffer in this block's slab. The slab is live managed memory: it is
        // freed only when all its blocks are free, and this one is not.
        unsafe { api.advise(ordinal, range, advised.undo(), advised.location) }
    }
}
