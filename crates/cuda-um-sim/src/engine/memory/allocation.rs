//! One allocation of any kind.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
    /// Of device memory, if kernels are checked for it: a bit for each byte that was written.
    pub(crate) written: Option<Arc<[AtomicU8]>>,
}

impl Allocation {
    pub(crate) fn end(&self) -> usize {
        self.base + self.bytes
    }

    /// A range is written by other means than a kernel.
    pub(crate) fn write(&self, range: Range<usize>) {
        let Some(bits) = &self.written else { return };
        let (start, end) = (range.start - self.base, range.end - self.base);
        for at in start / 8..end.div_ceil(8) {
            let (from, to) = (start.saturating_sub(at * 8), (end - at * 8).min(8));
            let mask = (0xff << from) & (0xff_u16 >> (8 - to));
            bits[at].fetch_or(mask as u8, Ordering::Relaxed);
        }
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
