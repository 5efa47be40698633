//! Blocks: memory as its owner identifies it.
#![allow(unsafe_code, reason = "sends addresses")]

use crate::context::tracked::SlabInfo;
use crate::context::tracker::InFlight;
use std::ops::Deref;
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

    /// An address that only the host can use.
    pub(crate) fn of_host(pointer: NonNull<u8>) -> Self {
        Self {
            device: None,
            ..Self::shared(pointer)
        }
    }

    /// The address `bytes` further, in the same allocation.
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

/// Memory of an owner. It has no `Drop`: memory that is not given back is leaked.
#[derive(Clone, Copy)]
pub(crate) struct Block {
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
}

impl Block {
    /// New memory, of which no page is there yet.
    pub(crate) fn new(address: Address, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            reserved_bytes: bytes,
            class: None,
            is_away: true,
            departures: 0,
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.address.host.as_ptr().addr()
    }
}

/// A block that no buffer owns.
pub(crate) struct FreeBlock {
    pub(crate) block: Block,
    pub(crate) uses: Option<Box<InFlight>>,
}

/// The uses of memory. They go with the block from one buffer to the next, without a copy.
pub(crate) struct Uses(Option<Box<InFlight>>);

impl Uses {
    pub(crate) fn of(left: Option<Box<InFlight>>) -> Self {
        Self(Some(left.unwrap_or_default()))
    }

    /// Takes the uses out when the buffer is dropped.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// The uses that are not known to be done.
    pub(crate) fn into_left(mut self) -> Option<Box<InFlight>> {
        if let Some(uses) = &mut self.0 {
            uses.retire();
        }
        self.0
    }
}

impl Deref for Uses {
    type Target = InFlight;

    #[inline]
    fn deref(&self) -> &InFlight {
        self.0
            .as_ref()
            .expect("only the drop of a buffer takes its uses")
    }
}
