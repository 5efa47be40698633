//! What the buffers on shared pages owe each other: advice that the next owner does not inherit, and departures of neighbours.
#![allow(unsafe_code, reason = "passes addresses to CUDA")]

use crate::context::device::DeviceState;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::block::Block;
use crate::resource::pool::class::host_page;
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Clone, Debug)]
struct Advised {
    range: Range<usize>,
    location: Location,
    set: cudaMemoryAdvise,
    /// The buffer was dropped.
    is_stale: bool,
}

/// The memory of a pool, or one allocation.
#[derive(Default)]
pub(crate) struct SharedPages {
    ranges: Mutex<Vec<Advised>>,
    // The number of ranges, so that memory without advice takes no lock.
    count: AtomicUsize,
    /// How often pages of buffers that share blocks of 2 MiB may have left the device, and those of their neighbours with them.
    // Relaxed: the block passes through a lock from the buffer that left to the next owner. A departure of a neighbour at the same time has no
    // order with a prefetch of this block anyway, and a wrong guess costs a page fault.
    departures: AtomicU64,
}

/// The range extended to whole pages of the host, on which prefetch and advice operate.
pub(crate) fn pages(range: &Range<usize>) -> Range<usize> {
    let page = host_page();
    range.start / page * page..range.end.next_multiple_of(page)
}

debug!([] SharedPages, "SharedPages", |it| departures: it.departures());

impl SharedPages {
    pub(crate) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Relaxed)
    }

    pub(crate) fn count_departure(&self) {
        self.departures.fetch_add(1, Ordering::Relaxed);
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<Advised>) -> R) -> R {
        let mut ranges = self.ranges.lock();
        let result = change(&mut ranges);
        // Relaxed: the lock that the block passes through orders this store before the next owner's load.
        self.count.store(ranges.len(), Ordering::Relaxed);
        result
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
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
            ranges.retain(|old| {
                let same = old.set == set && (!by_location || old.location == location);
                let is_inside = range.contains(&old.range.start) && old.range.end <= range.end;
                old.is_stale || !(same && is_inside)
            });
            ranges.push(Advised {
                range,
                location,
                set,
                is_stale: false,
            });
        });
    }

    /// Marks the advice of a dropped buffer's block as stale.
    #[inline]
    pub(crate) fn retire(&self, block: &Block) {
        if !self.is_empty() {
            let addresses = block.addresses();
            let mut ranges = self.ranges.lock();
            let of_block = ranges.iter_mut();
            of_block
                .filter(|advised| addresses.contains(&advised.range.start))
                .for_each(|advised| advised.is_stale = true);
        }
    }

    /// Undoes the advice for buffers that were dropped on the pages of a block. Returns true if there was any. What cannot be undone stays.
    ///
    /// # Safety
    ///
    /// The block is of the memory for which the advice is, which is live.
    pub(crate) unsafe fn undo(&self, device: &DeviceState, block: &Block) -> Result<bool> {
        let block_pages = pages(&block.addresses());
        let touches = |advised: &mut Advised| {
            let pages = pages(&advised.range);
            advised.is_stale && pages.start < block_pages.end && block_pages.start < pages.end
        };
        let mut stale: Vec<_> = self.change(|ranges| ranges.extract_if(.., touches).collect());
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
                self.change(|ranges| ranges.extend(stale));
                return Err(error);
            }
        }
        Ok(any)
    }

    pub(super) fn forget(&self, slab: &Range<usize>) {
        if !self.is_empty() {
            self.change(|ranges| ranges.retain(|advised| !slab.contains(&advised.range.start)));
        }
    }
}
