//! The addresses of a buffer, cut into blocks.

use crate::resource::cache::neighbours::{BLOCK, Neighbours, Stamp};
use std::ops::Range;

/// The addresses of a buffer, and what others do with the blocks that it shares.
#[derive(Clone)]
pub(crate) struct Extent<'a> {
    pub(crate) addresses: Range<usize>,
    pub(crate) neighbours: &'a Neighbours,
}

impl Extent<'_> {
    /// The number of a block among those of the buffer.
    pub(crate) fn index(&self, block: usize) -> usize {
        block - self.addresses.start / BLOCK
    }

    /// The numbers of the blocks.
    pub(crate) fn blocks(&self) -> Range<usize> {
        blocks_of(&self.addresses)
    }

    /// Its parts of all blocks.
    pub(crate) fn parts(&self) -> Vec<Range<usize>> {
        self.blocks().map(|block| self.part(block)).collect()
    }

    /// Its part of a block.
    pub(crate) fn part(&self, block: usize) -> Range<usize> {
        let start = (block * BLOCK).max(self.addresses.start);
        start..((block + 1) * BLOCK).min(self.addresses.end)
    }

    /// The blocks that it may share: the first and the last, which may be one.
    pub(crate) fn edges(&self) -> [usize; 2] {
        let blocks = self.blocks();
        [blocks.start, blocks.end.saturating_sub(1)]
    }

    /// Each of those once.
    pub(crate) fn each_edge(&self) -> impl Iterator<Item = usize> + use<> {
        let [first, last] = self.edges();
        std::iter::once(first).chain((last != first).then_some(last))
    }

    pub(crate) fn stamps(&self) -> [Stamp; 2] {
        self.edges().map(|block| self.neighbours.stamp(block))
    }

    /// Whether nothing has happened to a block since; to those in the middle nothing of others can.
    pub(crate) fn is_current(&self, block: usize, stamp: Stamp) -> bool {
        !self.edges().contains(&block) || self.neighbours.stamp(block) == stamp
    }
}

/// The numbers of the blocks that have a part of a range.
pub(crate) fn blocks_of(range: &Range<usize>) -> Range<usize> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}
