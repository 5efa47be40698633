//! One allocation of any kind.

use std::collections::BTreeMap;
use std::ops::Range;

use rangemap::RangeMap;

use super::address_space::PAGE;
use super::page::{BLOCK_PAGES, Page, Processors};
use super::place::Place;

/// Who may touch a managed allocation on devices without concurrent managed access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attach {
    /// Every stream.
    Global,
    /// The host alone.
    Host,
    /// One stream, by handle.
    Single(usize),
}

/// Advice and the last prefetch of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Option<Place>,
    pub(crate) accessed_by: Processors,
    pub(crate) last_prefetch: Option<Place>,
}

/// What an earlier call has left to the host's next touch of a page. A matter of time alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It was on a device and was discarded there.
    Discarded,
    /// A prefetch made it, and did not map it.
    Unmapped,
}

/// The pages of a managed allocation, numbered from its start.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) pages: RangeMap<usize, Page>,
    pub(crate) advice: RangeMap<usize, Advice>,
    pub(crate) attach: Attach,
    /// What is left to the host's next touch of pages.
    pub(crate) left: RangeMap<usize, Left>,
    /// When a device last used a block.
    pub(crate) used: BTreeMap<usize, u64>,
}

impl Managed {
    pub(crate) fn new(count: usize, attach: Attach) -> Managed {
        let mut pages = RangeMap::new();
        pages.insert(0..count, Page::default());
        let mut advice = RangeMap::new();
        advice.insert(0..count, Advice::default());
        Managed {
            pages,
            advice,
            attach,
            left: RangeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// The pieces of `range` that agree in page state and advice.
    pub(crate) fn runs(&self, range: &Range<usize>) -> Vec<(Range<usize>, Page, Advice)> {
        let mut runs = Vec::new();
        for (pages, page) in self.pages.overlapping(range) {
            let pages = pages.start.max(range.start)..pages.end.min(range.end);
            for (part, advice) in self.advice.overlapping(&pages) {
                runs.push((
                    part.start.max(pages.start)..part.end.min(pages.end),
                    *page,
                    *advice,
                ));
            }
        }
        runs
    }

    /// How many pages of `range` have this left to the host.
    pub(crate) fn left_to_host(&self, range: &Range<usize>, left: Left) -> usize {
        let parts = self
            .left
            .overlapping(range)
            .filter(|(_, what)| **what == left);
        parts
            .map(|(part, _)| part.end.min(range.end) - part.start.max(range.start))
            .sum()
    }

    /// Changes the advice of `range`.
    pub(crate) fn change_advice(&mut self, range: Range<usize>, change: impl Fn(&mut Advice)) {
        let parts: Vec<_> = self
            .advice
            .overlapping(&range)
            .map(|(part, advice)| {
                (
                    part.start.max(range.start)..part.end.min(range.end),
                    *advice,
                )
            })
            .collect();
        for (part, mut advice) in parts {
            change(&mut advice);
            self.advice.insert(part, advice);
        }
    }
}

/// What kind of memory an allocation is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `cudaMallocManaged`, and managed pools.
    Managed(Box<Managed>),
    /// `cudaMalloc` and pools; the ordinal of the device.
    Device(usize),
    /// `cudaHostAlloc`, with its flags.
    Pinned { flags: u32 },
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Apart from every other allocation, also later ones at this address.
    pub(crate) id: usize,
    /// First address of the host view: the pointer that the caller holds.
    pub(crate) base: usize,
    /// Bytes asked for.
    pub(crate) bytes: usize,
    /// Bytes of address space taken.
    pub(crate) reserved: usize,
    pub(crate) kind: Kind,
    /// The pool that its memory belongs to.
    pub(crate) pool: Option<usize>,
    /// Which device it was made on.
    pub(crate) device: usize,
    /// Bytes charged to a device for as long as it lives.
    pub(crate) charged: u64,
    /// A stream-ordered free is under way: when it was enqueued, as `State::handle` counts.
    pub(crate) freeing: Option<usize>,
}

impl Allocation {
    pub(crate) fn end(&self) -> usize {
        self.base + self.bytes
    }

    /// Its pages of 4 KiB.
    pub(crate) fn page_count(&self) -> usize {
        self.bytes.div_ceil(PAGE)
    }

    /// The pages that hold some byte of an address range inside the allocation, rounded outwards.
    pub(crate) fn pages(&self, range: &Range<usize>) -> Range<usize> {
        (range.start - self.base) / PAGE..(range.end - self.base).div_ceil(PAGE)
    }

    pub(crate) fn managed(&self) -> Option<&Managed> {
        match &self.kind {
            Kind::Managed(managed) => Some(managed),
            _ => None,
        }
    }

    pub(crate) fn managed_mut(&mut self) -> Option<&mut Managed> {
        match &mut self.kind {
            Kind::Managed(managed) => Some(managed),
            _ => None,
        }
    }
}

/// Cuts pages at block borders.
pub(crate) fn blocks(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let first = range.start / BLOCK_PAGES;
    let last = range.end.div_ceil(BLOCK_PAGES);
    (first..last).filter_map(move |block| {
        let part = range.start.max(block * BLOCK_PAGES)..range.end.min((block + 1) * BLOCK_PAGES);
        (!part.is_empty()).then_some((block, part))
    })
}
