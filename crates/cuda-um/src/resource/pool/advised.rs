//! Tracks advice for blocks of pools, so that the next owner does not inherit it.

use crate::driver::location::Location;
use crate::resource::pool::class::host_page;
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Advice for a buffer of a pool.
#[derive(Clone, Debug)]
pub(super) struct Advised {
    /// The addresses of the advice.
    pub(super) range: Range<usize>,
    pub(super) location: Location,
    set: cudaMemoryAdvise,
}

/// All advice in one pool.
#[derive(Default)]
pub(super) struct AdvisedRanges {
    ranges: Mutex<Ranges>,
    // The sizes of the two collections, so that a pool without advice takes no lock.
    live: AtomicUsize,
    stale: AtomicUsize,
}

#[derive(Default)]
struct Ranges {
    /// Advice for live buffers, by the address of its first byte.
    live: BTreeMap<usize, Vec<Advised>>,
    /// Advice for buffers that were dropped.
    stale: Vec<Advised>,
}

impl Advised {
    /// The advice that undoes this one. Its number is always one more.
    pub(super) fn undo(&self) -> cudaMemoryAdvise {
        cudaMemoryAdvise(self.set.0 + 1)
    }

    fn pages(&self) -> Range<usize> {
        pages(&self.range)
    }
}

/// The range extended to whole pages of the host, on which prefetch and advice operate.
pub(crate) fn pages(range: &Range<usize>) -> Range<usize> {
    let page = host_page();
    range.start / page * page..range.end.next_multiple_of(page)
}

impl AdvisedRanges {
    fn change<R>(&self, change: impl FnOnce(&mut Ranges) -> R) -> R {
        let mut ranges = self.ranges.lock();
        let result = change(&mut ranges);
        // Relaxed: the lock that the block passes through orders this store before the next owner's load.
        self.live.store(ranges.live.len(), Ordering::Relaxed);
        self.stale.store(ranges.stale.len(), Ordering::Relaxed);
        result
    }

    /// Tracks advice. Unset advice is not recorded: undoing twice is harmless.
    pub(super) fn note(&self, range: Range<usize>, set: cudaMemoryAdvise, location: Location) {
        // Odd numbers set advice; the even number that follows unsets it.
        if set.0.is_multiple_of(2) {
            return;
        }
        let by_location = set == cudaMemoryAdvise::cudaMemAdviseSetAccessedBy;
        self.change(|ranges| {
            // Drop older entries of the same advice for memory inside the range, which need not be undone twice.
            for (_, old) in ranges.live.range_mut(range.clone()) {
                old.retain(|old| {
                    let same = old.set == set && (!by_location || old.location == location);
                    !(same && old.range.end <= range.end)
                });
            }
            ranges.live.entry(range.start).or_default().push(Advised {
                range,
                location,
                set,
            });
        });
    }

    /// Marks the advice of a dropped buffer's block as stale.
    pub(super) fn retire(&self, block: Range<usize>) {
        if self.live.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.change(|Ranges { live, stale }| {
            while let Some((&start, _)) = live.range(block.clone()).next() {
                stale.extend(live.remove(&start).into_iter().flatten());
            }
        });
    }

    /// Takes the stale advice on the pages of a block.
    pub(super) fn take_stale(&self, block: &Range<usize>) -> Vec<Advised> {
        if self.stale.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let block = pages(block);
        let touches = |advised: &mut Advised| {
            let pages = advised.pages();
            pages.start < block.end && block.start < pages.end
        };
        self.change(|ranges| ranges.stale.extract_if(.., touches).collect())
    }

    /// Puts back advice that could not be undone.
    pub(super) fn put_back(&self, advised: impl IntoIterator<Item = Advised>) {
        self.change(|ranges| ranges.stale.extend(advised));
    }

    /// Removes the advice of a slab that is freed.
    pub(super) fn forget(&self, slab: &Range<usize>) {
        if self.stale.load(Ordering::Relaxed) > 0 {
            let within = |advised: &Advised| slab.contains(&advised.range.start);
            self.change(|ranges| ranges.stale.retain(|advised| !within(advised)));
        }
    }
}
