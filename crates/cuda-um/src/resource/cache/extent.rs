//! The addresses of a buffer, in blocks of 2 MiB, the largest unit that the driver migrates at once.

use std::ops::Range;

/// The size of a block, in bytes.
pub(crate) const BLOCK: usize = 2 << 20;

/// The addresses of a buffer, and the blocks that belong to it completely. A block's number is its address divided by its size.
#[derive(Clone)]
pub(crate) struct Extent {
    pub(crate) addresses: Range<usize>,
    tracked: Range<usize>,
}

impl Extent {
    /// The extent of a buffer at these addresses. No other buffer has memory between their end and `reserved_end`.
    pub(crate) fn new(addresses: Range<usize>, reserved_end: usize) -> Self {
        let first = addresses.start.div_ceil(BLOCK);
        let end = (reserved_end / BLOCK).min(addresses.end.div_ceil(BLOCK));
        Self {
            addresses,
            tracked: first..end.max(first),
        }
    }

    /// Returns true if all of these blocks are tracked.
    pub(crate) fn tracks(&self, blocks: &Range<usize>) -> bool {
        self.tracked.start <= blocks.start && blocks.end <= self.tracked.end
    }

    /// The tracked blocks among these.
    pub(crate) fn tracked_of(&self, blocks: &Range<usize>) -> Range<usize> {
        blocks.start.max(self.tracked.start)..blocks.end.min(self.tracked.end)
    }

    /// The number of tracked blocks.
    pub(crate) fn tracked_blocks(&self) -> usize {
        self.tracked.len()
    }

    /// The index of a tracked block among the tracked ones.
    pub(super) fn index(&self, block: usize) -> usize {
        block - self.tracked.start
    }

    /// The numbers of all blocks that overlap the buffer.
    pub(crate) fn blocks(&self) -> Range<usize> {
        blocks_of(&self.addresses)
    }

    /// The buffer's part of a block.
    pub(crate) fn part(&self, block: usize) -> Range<usize> {
        let start = (block * BLOCK).max(self.addresses.start);
        start..((block + 1) * BLOCK).min(self.addresses.end)
    }
}

/// The numbers of the blocks that overlap a range.
pub(super) fn blocks_of(range: &Range<usize>) -> Range<usize> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}
