//! Blocks: memory as its owner identifies it.
#![allow(unsafe_code, reason = "sends addresses")]

use crate::context::tracked::SlabInfo;
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
}

/// Memory of an owner. It has no `Drop`: memory that is not given back is leaked.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: Address,
    /// The size of the buffer, in bytes.
    pub(crate) bytes: usize,
    /// The size of the memory, in bytes, which may exceed the buffer's.
    pub(crate) reserved_bytes: usize,
    /// The size class of a pool's block; `None` for a dedicated slab, and outside of pools.
    pub(crate) class: Option<u16>,
    /// True if pages of managed memory may not be on its device.
    pub(crate) is_away: bool,
}
