//! The memory of a device as pools have it: addresses, and which of them are taken.

use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

#[derive(Default)]
pub(crate) struct RawMemory {
    /// CUDA's lock: loom tries every order of its callers.
    slabs: Mutex<Slabs>,
    /// The starts and ends of the blocks that are taken from a pool. Not loom's lock, so that a thread records a block undisturbed.
    taken: parking_lot::Mutex<BTreeMap<usize, usize>>,
}

#[derive(Default)]
struct Slabs {
    free_bytes: usize,
    next: usize,
    /// Where each starts and ends.
    ranges: BTreeMap<usize, usize>,
}

fn overlaps(ranges: &BTreeMap<usize, usize>, range: &Range<usize>) -> bool {
    let before = ranges.range(..range.end).next_back();
    before.is_some_and(|(_, &end)| end > range.start)
}

impl RawMemory {
    pub(crate) fn of(bytes: usize) -> Self {
        let slabs = Slabs {
            free_bytes: bytes,
            next: 1 << 20,
            ..Slabs::default()
        };
        Self {
            slabs: Mutex::new(slabs),
            taken: parking_lot::Mutex::default(),
        }
    }

    pub(super) fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        let mut slabs = self.slabs.lock();
        slabs.free_bytes = slabs.free_bytes.checked_sub(bytes)?;
        let start = slabs.next;
        slabs.next += bytes;
        slabs.ranges.insert(start, start + bytes);
        NonZeroUsize::new(start).map(NonNull::without_provenance)
    }

    pub(super) fn free(&self, slab: &Range<usize>) {
        let mut slabs = self.slabs.lock();
        let end = slabs.ranges.remove(&slab.start);
        assert_eq!(end, Some(slab.end), "a slab is freed twice");
        slabs.free_bytes += slab.len();
        assert!(
            !overlaps(&self.taken.lock(), slab),
            "a slab is freed in use"
        );
    }

    /// Somebody has got this block.
    pub(crate) fn taken(&self, block: Range<usize>) {
        let mut taken = self.taken.lock();
        assert!(!overlaps(&taken, &block), "a block is had twice");
        taken.insert(block.start, block.end);
    }

    /// It goes back to its pool now; its slab must be there still.
    pub(crate) fn given(&self, block: Range<usize>) {
        let within = |(_, &end): (&usize, &usize)| block.end <= end;
        let there = {
            let slabs = self.slabs.lock();
            slabs
                .ranges
                .range(..=block.start)
                .next_back()
                .is_some_and(within)
        };
        assert!(there, "a block of a slab that is freed");
        self.taken.lock().remove(&block.start);
    }

    /// How many slabs there are.
    pub(crate) fn slabs(&self) -> usize {
        self.slabs.lock().ranges.len()
    }
}
