//! The advice that holds for blocks of pools, so that the next owner does not inherit it.

use crate::driver::location::Location;
use crate::resource::pool::class::PAGE;
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Advice that was given to a buffer of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Advised {
    /// Addresses.
    pub(crate) range: Range<usize>,
    pub(crate) location: Location,
    set: cudaMemoryAdvise,
}

/// What was advised in one pool.
#[derive(Default)]
pub(crate) struct AdvisedRanges {
    ranges: Mutex<Ranges>,
    // How many there are of each, so that a pool without advice looks no further.
    live: AtomicUsize,
    stale: AtomicUsize,
}

#[derive(Default)]
struct Ranges {
    /// Of buffers, by the address of the first byte.
    live: BTreeMap<usize, Vec<Advised>>,
    /// Of buffers that are gone.
    stale: Vec<Advised>,
}

impl Advised {
    /// The advice that undoes it: always the number after.
    pub(crate) fn undo(&self) -> cudaMemoryAdvise {
        cudaMemoryAdvise(self.set.0 + 1)
    }

    fn pages(&self) -> Range<usize> {
        pages(&self.range)
    }
}

/// A range and the rest of its pages: what prefetch and advice take it for.
pub(crate) fn pages(range: &Range<usize>) -> Range<usize> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE)
}

impl AdvisedRanges {
    fn change<R>(&self, change: impl FnOnce(&mut Ranges) -> R) -> R {
        let mut ranges = self.ranges.lock();
        let result = change(&mut ranges);
        // The lock that the block goes through orders this with who has the block next.
        self.live.store(ranges.live.len(), Ordering::Relaxed);
        self.stale.store(ranges.stale.len(), Ordering::Relaxed);
        result
    }

    /// Notes advice that is given. What undoes some is no matter: it may fail, and undoing twice does no harm.
    pub(crate) fn note(&self, range: Range<usize>, set: cudaMemoryAdvise, location: Location) {
        // Odd numbers set, the even ones after them undo.
        if set.0.is_multiple_of(2) {
            return;
        }
        let by_location = set == cudaMemoryAdvise::cudaMemAdviseSetAccessedBy;
        self.change(|ranges| {
            // The same advice for the same memory need not be undone twice.
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

    /// The buffer that had this block is gone.
    pub(crate) fn retire(&self, block: Range<usize>) {
        if self.live.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.change(|Ranges { live, stale }| {
            while let Some((&start, _)) = live.range(block.clone()).next() {
                stale.extend(live.remove(&start).into_iter().flatten());
            }
        });
    }

    /// Takes what former owners left on the pages of a block.
    pub(crate) fn take_stale(&self, block: &Range<usize>) -> Vec<Advised> {
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

    /// Puts back what could not be undone.
    pub(crate) fn put_back(&self, advised: impl IntoIterator<Item = Advised>) {
        self.change(|ranges| ranges.stale.extend(advised));
    }

    /// The slab is gone, and its advice with it.
    pub(crate) fn forget(&self, slab: &Range<usize>) {
        if self.stale.load(Ordering::Relaxed) > 0 {
            let within = |advised: &Advised| slab.contains(&advised.range.start);
            self.change(|ranges| ranges.stale.retain(|advised| !within(advised)));
        }
    }
}
