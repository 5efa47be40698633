//! A block of an access, and its 64 KiB pages.

use crate::engine::managed::fault_plan::mask;
use crate::engine::managed::page::LEAF_PAGES;
use std::ops::Range;

/// Touched pages, numbered from the start of the allocation, and whether they are written.
pub(super) type Part = (Range<usize>, bool);

/// A block of 2 MiB, of which parts are touched. Pages are numbered from the start of the allocation.
pub(super) struct Block {
    pub(super) pages: Range<usize>,
    pub(super) touched: Vec<Part>,
}

impl Block {
    /// The 64 KiB page that holds a page.
    pub(super) fn leaf(&self, page: usize) -> u32 {
        ((page - self.pages.start) / LEAF_PAGES) as u32
    }

    /// The number of its 64 KiB pages.
    pub(super) fn leaves(&self) -> u32 {
        self.leaf(self.pages.end - 1) + 1
    }

    /// The 64 KiB pages that hold some page of a range, one bit each.
    pub(super) fn leaf_mask(&self, pages: &Range<usize>) -> u32 {
        mask(self.leaf(pages.start), self.leaf(pages.end - 1) + 1)
    }

    /// The pages of a 64 KiB page.
    pub(super) fn leaf_pages(&self, leaf: u32) -> Range<usize> {
        let start = self.pages.start + leaf as usize * LEAF_PAGES;
        start..(start + LEAF_PAGES).min(self.pages.end)
    }
}
