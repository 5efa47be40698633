//! Blocks: memory as its owner identifies it.
#![allow(unsafe_code, reason = "sends addresses")]

use crate::context::tracked::SlabInfo;
use crate::context::tracker::InFlight;
use std::ops::Range;
use std::ptr::NonNull;

/// The start of memory.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) host: NonNull<u8>,
    /// The address for kernels; `None` if they cannot access the memory.
    pub(crate) device: Option<NonNull<u8>>,
    /// The slab that contains the memory, if a pool of slabs owns it.
    pub(crate) slab: Option<SlabInfo>,
}

// SAFETY: this is only an address; the allocation controls the access to its memory.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// An address outside of slabs, which kernels use as well.
    pub(crate) fn shared(pointer: NonNull<u8>) -> Self {
        Self {
            host: pointer,
            device: Some(pointer),
            slab: None,
        }
    }

    pub(crate) fn of_host(pointer: NonNull<u8>) -> Self {
        Self {
            device: None,
            ..Self::shared(pointer)
        }
    }

    pub(crate) fn offset(self, bytes: usize) -> Self {
        // The address is within an allocation, so it is never null.
        let offset = |from: NonNull<u8>| NonNull::new(from.as_ptr().wrapping_add(bytes));
        Self {
            host: offset(self.host).unwrap_or(self.host),
            device: self.device.and_then(offset),
            slab: self.slab,
        }
    }
}

/// Memory of an owner, with the work that may still use it. Boxed, a block of a pool goes from one buffer to the next without a copy. It has no
/// `Drop`: memory that is not given back is leaked.
pub struct Block {
    pub(crate) address: Address,
    /// The size of the buffer, in bytes; of a free block, that of the memory.
    pub(crate) bytes: usize,
    /// The size of the memory, in bytes, which may exceed the buffer's.
    pub(crate) reserved_bytes: usize,
    /// The size class of a pool's block; `None` for a dedicated slab, and outside of pools.
    pub(crate) class: Option<u16>,
    /// True if pages of managed memory may not be on its device.
    pub(crate) is_away: bool,
    /// The departures of small blocks that a pool had counted when this one became free.
    pub(crate) departures: u64,
    pub(crate) in_flight: InFlight,
}

impl Block {
    /// New memory, of which no page is there yet.
    pub(crate) fn new(address: Address, bytes: usize) -> Box<Self> {
        Box::new(Self {
            address,
            bytes,
            reserved_bytes: bytes,
            class: None,
            is_away: true,
            departures: 0,
            in_flight: InFlight::default(),
        })
    }

    pub(crate) fn at(&self) -> usize {
        self.address.host.as_ptr().addr()
    }

    pub(crate) fn addresses(&self) -> Range<usize> {
        self.at()..self.at() + self.bytes
    }
}
