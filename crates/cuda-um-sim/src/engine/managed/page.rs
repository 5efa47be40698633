//! Processors, and the state of one page.

use std::ops::Range;

use crate::engine::address_space::HostAccess;

/// The host or one device: memory is resident at processors, and processors access it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Processor(u8);

/// The host.
pub(crate) const HOST: Processor = Processor(0);

impl Processor {
    /// The device of this ordinal (up to 15 devices).
    pub(crate) fn device(ordinal: usize) -> Processor {
        debug_assert!(ordinal < 15);
        Processor(ordinal as u8 + 1)
    }

    /// The ordinal, if it is a device.
    pub(crate) fn ordinal(self) -> Option<usize> {
        (self.0 > 0).then(|| self.0 as usize - 1)
    }
}

/// A set of processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub(crate) struct Processors(u16);

impl Processors {
    pub(crate) const NONE: Processors = Processors(0);

    pub(crate) fn only(processor: Processor) -> Processors {
        Processors(1 << processor.0)
    }

    pub(crate) fn contains(self, processor: Processor) -> bool {
        self.0 & (1 << processor.0) != 0
    }

    pub(crate) fn with(self, processor: Processor) -> Processors {
        Processors(self.0 | (1 << processor.0))
    }

    pub(crate) fn without(self, processor: Processor) -> Processors {
        Processors(self.0 & !(1 << processor.0))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn intersection(self, other: Processors) -> Processors {
        Processors(self.0 & other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Processor> {
        (0..16u8)
            .filter(move |bit| self.0 & (1 << bit) != 0)
            .map(Processor)
    }

    /// The first device of the set, or the host if it holds no device.
    pub(crate) fn device_first(self) -> Option<Processor> {
        self.iter()
            .find(|processor| *processor != HOST)
            .or_else(|| self.iter().next())
    }
}

/// The state of a page of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Page {
    /// Processors whose memory holds the page. Several if it is read-duplicated; none before its first touch, when it reads as zero.
    pub(crate) resident: Processors,
    /// Processors that reach it over the link: a fault has mapped it there.
    pub(crate) mapped: Processors,
}

impl Page {
    /// The access that the host has to the page without a fault.
    pub(crate) fn host_access(self) -> HostAccess {
        if self.resident.contains(HOST) {
            if self.resident.len() > 1 {
                HostAccess::Read
            } else {
                HostAccess::ReadWrite
            }
        } else if self.mapped.contains(HOST) {
            HostAccess::ReadWrite
        } else {
            HostAccess::None
        }
    }
}

/// Pages of 4 KiB in a 64 KiB page of the GPU.
pub(crate) const LEAF_PAGES: usize = 16;
/// Pages of 4 KiB in a block of 2 MiB, the unit of copies and of the density rule.
pub(crate) const BLOCK_PAGES: usize = 512;

/// Cuts a range of pages at the borders of blocks.
pub(crate) fn blocks(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let first = range.start / BLOCK_PAGES;
    let last = range.end.div_ceil(BLOCK_PAGES);
    (first..last).filter_map(move |block| {
        let part = common(&range, &(block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES));
        (!part.is_empty()).then_some((block, part))
    })
}

/// The part that two ranges have in common; empty if they have none.
pub(crate) fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}
