//! The advice that holds for blocks of pools, so that the next owner does not inherit it.

use super::class::PAGE;
use super::shared::Shared;
use crate::location::Location;
use cuda_um_sys::cudaMemoryAdvise;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Advice that was given to a buffer of a pool.
#[derive(Clone, Debug)]
pub(super) struct Advised {
    /// Addresses.
    pub(super) range: Range<usize>,
    pub(super) location: Location,
    set: cudaMemoryAdvise,
    /// The buffer is gone.
    stale: bool,
}

/// What was advised in one pool.
#[derive(Default)]
pub(super) struct AdvisedRanges {
    ranges: Mutex<Vec<Advised>>,
    /// As many, so that a pool without advice looks no further.
    count: AtomicUsize,
}

impl Advised {
    /// The advice that undoes it: always the number after.
    pub(super) fn undo(&self) -> cudaMemoryAdvise {
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
    /// Whether there are any. The lock of the block's list orders this with who advised the block before.
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<Advised>) -> R) -> R {
        let mut ranges = self.ranges.lock();
        let result = change(&mut ranges);
        self.count.store(ranges.len(), Ordering::Relaxed);
        result
    }

    fn note(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        // Odd numbers set, the even ones after them undo.
        let is_set = advice.0 % 2 == 1;
        let set = if is_set {
            advice
        } else {
            cudaMemoryAdvise(advice.0 - 1)
        };
        let by_location = set == cudaMemoryAdvise::cudaMemAdviseSetAccessedBy;
        self.change(|ranges| {
            // What was advised before, and is now undone or advised otherwise.
            ranges.retain(|old| {
                let covered = range.start <= old.range.start && old.range.end <= range.end;
                !(covered && old.set == set && (!by_location || old.location == location))
            });
            if is_set {
                ranges.push(Advised {
                    range,
                    location,
                    set,
                    stale: false,
                });
            }
        });
    }

    /// The buffer that had this block is gone.
    pub(super) fn retire(&self, block: Range<usize>) {
        if !self.is_empty() {
            let within = |advised: &&mut Advised| block.contains(&advised.range.start);
            self.change(|ranges| {
                ranges
                    .iter_mut()
                    .filter(within)
                    .for_each(|advised| advised.stale = true);
            });
        }
    }

    /// Takes what former owners left on the pages of a block.
    pub(super) fn take_stale(&self, block: &Range<usize>) -> Vec<Advised> {
        if self.is_empty() {
            return Vec::new();
        }
        let block = pages(block);
        let touches = |advised: &mut Advised| {
            let pages = advised.pages();
            advised.stale && pages.start < block.end && block.start < pages.end
        };
        self.change(|ranges| ranges.extract_if(.., touches).collect())
    }

    /// Puts back what could not be undone.
    pub(super) fn put_back(&self, advised: impl IntoIterator<Item = Advised>) {
        self.change(|ranges| ranges.extend(advised));
    }

    /// The slab is gone, and its advice with it.
    pub(super) fn forget(&self, slab: &Range<usize>) {
        if !self.is_empty() {
            self.change(|ranges| ranges.retain(|advised| !slab.contains(&advised.range.start)));
        }
    }
}

type Slabs = BTreeMap<usize, (usize, Weak<Shared>)>;

/// All slabs of all pools: where each starts, where it ends and whose it is.
static SLABS: RwLock<Slabs> = RwLock::new(BTreeMap::new());

pub(super) fn register(slab: Range<usize>, pool: &Arc<Shared>) {
    let owner = Arc::downgrade(pool);
    SLABS.write().insert(slab.start, (slab.end, owner));
}

pub(super) fn unregister(slab: &Range<usize>) {
    // Dropped without the lock.
    let _owner = SLABS.write().remove(&slab.start);
}

fn slab_at(slabs: &Slabs, address: usize) -> Option<(usize, &(usize, Weak<Shared>))> {
    let (start, slab) = slabs.range(..=address).next_back()?;
    (address < slab.0).then_some((*start, slab))
}

/// The start of the slab that holds the address, if a pool's does.
pub(crate) fn slab_of(address: usize) -> Option<usize> {
    slab_at(&SLABS.read(), address).map(|(start, _)| start)
}

/// Notes advice that CUDA has taken for a range of addresses, in case it is a pool's.
pub(crate) fn advised(range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
    let pool = slab_at(&SLABS.read(), range.start).and_then(|(_, (_, pool))| pool.upgrade());
    if let Some(pool) = pool {
        pool.advised.note(range, advice, location);
    }
}
