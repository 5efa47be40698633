//! One allocation of any kind.

use std::ops::Range;

use crate::engine::address_space::PAGE;

/// The kind of an allocation's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `cudaMallocManaged`, and managed pools. `ManagedMemory` holds the state of its pages.
    Managed,
    /// `cudaMalloc` and pools; the ordinal of the device.
    Device(usize),
    /// `cudaHostAlloc`, with its flags.
    Pinned { flags: u32 },
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// A number that no other allocation has, also no later one at this address.
    pub(crate) id: usize,
    /// First address of the host view: the pointer that the caller holds.
    pub(crate) base: usize,
    /// Bytes that the caller asked for.
    pub(crate) bytes: usize,
    /// Bytes of address space taken.
    pub(crate) reserved: usize,
    pub(crate) kind: Kind,
    /// The pool that its memory belongs to.
    pub(crate) pool: Option<usize>,
    /// The device that was current when it was made.
    pub(crate) device: usize,
    /// Bytes charged to that device for as long as the allocation exists.
    pub(crate) charged: u64,
    /// The number of the stream-ordered free that is enqueued for it.
    pub(crate) freeing: Option<usize>,
    /// Whether it is a module's: no call frees it.
    pub(crate) kept: bool,
}

impl Allocation {
    pub(crate) fn end(&self) -> usize {
        self.base + self.bytes
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.kind == Kind::Managed
    }

    /// The addresses of its pages: the rest of the last page counts.
    pub(crate) fn page_addresses(&self) -> Range<usize> {
        self.base..self.base + self.bytes.next_multiple_of(PAGE)
    }

    /// The pages that hold some byte of an address range inside the allocation.
    pub(crate) fn pages(&self, range: &Range<usize>) -> Range<usize> {
        (range.start - self.base) / PAGE..(range.end - self.base).div_ceil(PAGE)
    }
}
