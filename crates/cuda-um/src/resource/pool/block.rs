//! Blocks: free ones with the work that still uses them, and the pool's part of a buffer.
#![allow(
    unsafe_code,
    reason = "sends addresses, and gives CUDA those of blocks"
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
    pub(crate) address: Address,
    /// What its former owners' work may still do with it; most have none.
    pub(crate) in_flight: Option<Box<InFlight>>,
}

/// Where a block starts.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) host: NonNull<u8>,
    /// For kernels; none in host memory that is not mapped.
    pub(crate) device: Option<NonNull<u8>>,
    pub(crate) slab: SlabId,
}

impl Address {
    /// So many bytes further, in the same slab.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        // Within a slab, so never null.
        let offset = |from: NonNull<u8>| NonNull::new(from.as_ptr().wrapping_add(bytes));
        Self {
            host: offset(self.host).unwrap_or(self.host),
            device: self.device.and_then(offset),
            slab: self.slab,
        }
    }
}

// SAFETY: an address alone; who has the block decides who reads and writes there.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The pool of a block.
pub(crate) trait BlockOwner: Send + Sync {
    fn device(&self) -> &Device;

    fn kind(&self) -> MemoryKind;

    /// Takes a block back, of a class or, with `None`, a slab of its own.
    fn take_back(&self, block: FreeBlock, class: Option<u16>, bytes: usize);

    /// Notes advice that CUDA is about to take for a range of addresses.
    fn note_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location);
}

/// What a buffer keeps of its block: where it goes when the buffer is gone.
///
/// It must go through `give_back` once, or is lost: then its slab is never freed.
pub(crate) struct PoolBlock {
    pub(crate) owner: Arc<dyn BlockOwner>,
    /// Its size, which may be more than the buffer's.
    pub(crate) bytes: usize,
    /// Its class; none for a slab of its own.
    pub(crate) class: Option<u16>,
    pub(crate) slab: SlabId,
}

impl PoolBlock {
    /// Gives the block back, with the work that may still use it.
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

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        self.owner.kind()
    }

    pub(crate) fn slab(&self) -> SlabId {
        self.slab
    }

    /// Notes advice that CUDA is about to take for a range of its addresses: it is undone before the block has another owner.
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
    /// What its former owners' work may still do with it.
    pub(crate) fn left(self) -> InFlight {
        self.in_flight.map_or_else(InFlight::default, |left| *left)
    }

    pub(crate) fn at(&self) -> usize {
        self.address.host.as_ptr().addr()
    }

    /// Undoes advice for a range that began in a block of the same slab.
    pub(crate) fn undo(&self, api: &Api, ordinal: u32, advised: &Advised) -> Result<()> {
        let start = self.address.host.as_ptr();
        let Range { start: from, end } = advised.range.clone();
        let range = start.with_addr(from)..start.with_addr(end);
        // SAFETY: the range was checked when the advice was given, to a buffer in this block's slab. That is live managed memory:
        // it is freed only when all its blocks are free, and this one is taken.
        unsafe { api.advise(ordinal, range, advised.undo(), advised.location) }
    }
}
