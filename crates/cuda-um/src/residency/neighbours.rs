//! What happens to blocks of addresses that several buffers may share.

use super::shadow::Place;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the driver migrates at most at once.
pub(crate) const BLOCK: usize = 2 << 20;

/// For each block, where somebody last had something of it moved, and how often that changed.
///
/// A table of fixed size without locks: blocks that fall together disturb each other, which costs a prefetch that moves nothing, no more.
pub(crate) struct Neighbours {
    entries: Box<[AtomicU64]>,
}

/// How a block was at a time. The same again: nothing has been moved elsewhere since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

const ENTRIES: usize = 4096;
/// Below the count of changes.
const PLACE_BITS: u32 = 16;

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Neighbours {
    fn entry(&self, block: usize) -> &AtomicU64 {
        &self.entries[block % ENTRIES]
    }

    pub(crate) fn stamp(&self, block: usize) -> Stamp {
        Stamp(self.entry(block).load(Ordering::Acquire))
    }

    /// Something of the block goes to a place, or nobody knows where.
    pub(crate) fn touch(&self, block: usize, place: Option<Place>) {
        let code = match place {
            None => 0,
            Some(Place::Host) => 1,
            // So many devices no machine has.
            Some(Place::Device(ordinal)) => u64::from(ordinal & 0xfff) + 2,
        };
        let change = |old: u64| {
            let same = code != 0 && old & ((1 << PLACE_BITS) - 1) == code;
            (!same).then_some(((old >> PLACE_BITS) + 1) << PLACE_BITS | code)
        };
        // Refused where nothing changes.
        let _ = self
            .entry(block)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }
}
