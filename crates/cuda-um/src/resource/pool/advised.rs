//! Tracks advice for memory, so that its next owner does not inherit it.
#![allow(unsafe_code, reason = "passes addresses to CUDA")]

use crate::context::device::DeviceState;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::block::Block;
use crate::resource::pool::class::host_page;
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Advice for a buffer.
#[derive(Clone, Debug)]
struct Advised {
    /// The addresses of the advice.
    range: Range<usize>,
    location: Location,
    set: cudaMemoryAdvise,
}

/// All advice for the memory of a pool, or for one allocation.
#[derive(Default)]
pub(crate) struct AdvisedRanges {
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
    pub(crate) fn note(&self, range: Range<usize>, set: cudaMemoryAdvise, location: Location) {
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

    /// Undoes the advice for buffers that were dropped on the pages of a block. Returns true if there was any. What cannot be undone stays.
    ///
    /// # Safety
    ///
    /// The block is of the memory for which the advice is, which is live.
    pub(crate) unsafe fn undo(&self, device: &DeviceState, block: &Block) -> Result<bool> {
        if self.stale.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let block_pages = pages(&(block.at()..block.at() + block.bytes));
        let touches = |advised: &mut Advised| {
            let pages = pages(&advised.range);
            pages.start < block_pages.end && block_pages.start < pages.end
        };
        let mut stale: Vec<_> =
            self.change(|ranges| ranges.stale.extract_if(.., touches).collect());
        let any = !stale.is_empty();
        while let Some(advised) = stale.pop() {
            let start = block.address.host.as_ptr();
            let range = start.with_addr(advised.range.start)..start.with_addr(advised.range.end);
            // The number of the advice that undoes this one is always one more.
            let unset = cudaMemoryAdvise(advised.set.0 + 1);
            let (api, ordinal) = (&device.api, device.ordinal);
            // SAFETY: the range was checked when the advice was set; the memory is live.
            if let Err(error) = unsafe { api.advise(ordinal, range, unset, advised.location) } {
                stale.push(advised);
                self.change(|ranges| ranges.stale.extend(stale));
                return Err(error);
            }
        }
        Ok(any)
    }

    /// Removes the advice of a slab that is freed.
    pub(super) fn forget(&self, slab: &Range<usize>) {
        if self.stale.load(Ordering::Relaxed) > 0 {
            let within = |advised: &Advised| slab.contains(&advised.range.start);
            self.change(|ranges| ranges.stale.retain(|advised| !within(advised)));
        }
    }
}
