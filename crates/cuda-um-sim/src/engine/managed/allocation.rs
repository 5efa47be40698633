//! The pages of one managed allocation.

use std::collections::BTreeMap;
use std::ops::Range;

use rangemap::RangeMap;

use super::advice::Advice;
use super::page::{HOST, Page, Processors, common};
use crate::engine::address_space::PAGE;

/// Where the pages of [`Managed::system`] begin: no managed allocation does.
pub(crate) const SYSTEM: usize = 0;

/// The work that may touch a managed allocation on devices without concurrent managed access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attach {
    /// Work of every stream.
    Global,
    /// Only the host.
    Host,
    /// Work of one stream, by handle.
    Single(usize),
}

/// Work that an earlier call has left to the host's next touch of a page. It changes only the time that the touch takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// The page was resident on a device and was discarded there.
    Discarded,
    /// A prefetch made the page and did not map it.
    Unmapped,
}

/// Pages that agree in state and advice.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) pages: Range<usize>,
    pub(crate) page: Page,
    pub(crate) advice: Advice,
    /// They are system memory.
    pub(crate) system: bool,
}

/// The pages of a managed allocation, numbered from its start.
#[derive(Debug)]
pub(crate) struct Managed {
    /// Number of its pages.
    pub(crate) count: usize,
    /// It is the program's memory: see [`Managed::system`].
    pub(crate) system: bool,
    /// Its bytes are charged to a device for as long as it exists: its pages are neither counted nor evicted.
    pub(crate) charged: bool,
    pub(crate) attach: Attach,
    pub(crate) pages: RangeMap<usize, Page>,
    pub(crate) advice: RangeMap<usize, Advice>,
    /// Work that is left to the host's next touch of pages.
    pub(crate) left: RangeMap<usize, Left>,
    /// When each block was last used, as `ManagedMemory` counts.
    pub(crate) used: BTreeMap<usize, u64>,
}

impl Managed {
    /// The pages of 4 KiB of a process's memory: addresses have 48 bits.
    pub(crate) const SYSTEM_PAGES: usize = (1 << 48) / PAGE;

    /// All memory of the program, from address 0 on: its pages are on the host, and may be touched by every stream.
    pub(crate) fn system() -> Managed {
        let mut managed = Managed::new(Self::SYSTEM_PAGES, false, Attach::Global);
        managed.system = true;
        let resident = Processors::only(HOST);
        let page = Page {
            resident,
            ..Page::default()
        };
        managed.pages.insert(0..Self::SYSTEM_PAGES, page);
        managed
    }

    pub(crate) fn new(count: usize, charged: bool, attach: Attach) -> Managed {
        let mut pages = RangeMap::new();
        pages.insert(0..count, Page::default());
        let mut advice = RangeMap::new();
        advice.insert(0..count, Advice::default());
        Managed {
            count,
            system: false,
            charged,
            attach,
            pages,
            advice,
            left: RangeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// The pieces of `range` that agree in page state and advice.
    pub(crate) fn runs(&self, range: &Range<usize>) -> Vec<Run> {
        let mut runs = Vec::new();
        for (pages, page) in self.pages.overlapping(range) {
            let pages = common(pages, range);
            for (part, advice) in self.advice.overlapping(&pages) {
                runs.push(Run {
                    pages: common(part, &pages),
                    page: *page,
                    advice: *advice,
                    system: self.system,
                });
            }
        }
        runs
    }

    /// The number of pages of `range` with this work left to the host.
    pub(crate) fn left_to_host(&self, range: &Range<usize>, left: Left) -> usize {
        let parts = self.left.overlapping(range);
        parts
            .filter(|(_, found)| **found == left)
            .map(|(part, _)| common(part, range).len())
            .sum()
    }

    /// Changes the advice of `range`.
    pub(crate) fn change_advice(&mut self, range: &Range<usize>, change: impl Fn(&mut Advice)) {
        let parts = self.advice.overlapping(range);
        let parts: Vec<_> = parts
            .map(|(part, advice)| (common(part, range), *advice))
            .collect();
        for (part, mut advice) in parts {
            change(&mut advice);
            self.advice.insert(part, advice);
        }
    }
}
