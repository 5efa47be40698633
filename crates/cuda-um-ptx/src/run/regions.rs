//! Regions of device memory, as the caller names them, and the pages of them that a launch touches.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{Located, lanes};
use super::{At, Worker};
use crate::launch::{Extent, FindingKind, Refusal, Region, Touch};

/// Pages of regions that the launch has touched.
#[derive(Default)]
pub(crate) struct Regions {
    pages: Mutex<HashMap<u64, Arc<Pages>>>,
}

pub(crate) struct Pages {
    base: u64,
    shift: u32,
    /// Bit 0: read, bit 1: written.
    touched: Vec<AtomicU8>,
}

/// Device memory that the lanes may use: a region, or the part of it that an argument extends to.
pub(crate) struct Span {
    pub lo: u64,
    pub hi: u64,
    /// Of `lo`.
    pub host: *mut u8,
    pub writable: bool,
    pub id: u64,
    pub parameter: Option<usize>,
    pub pages: Option<Arc<Pages>>,
    /// Of the region, whose first address is `base`.
    pub written: *mut u8,
    pub base: u64,
}

/// What is wrong with an address: in words, and the region and the parameter that it belongs to.
pub(crate) type Mistake = (FindingKind, String, Option<(u64, Option<usize>)>);

/// The spans that a worker has used.
#[derive(Default)]
pub(crate) struct Cache {
    pub spans: Vec<Span>,
    last: usize,
}

impl Cache {
    #[inline(always)]
    pub fn find(&mut self, first: u64, end: u64, write: bool) -> Option<usize> {
        let fits = |span: &Span| first >= span.lo && end <= span.hi && (!write || span.writable);
        if self.spans.get(self.last).is_some_and(fits) {
            return Some(self.last);
        }
        self.last = self.spans.iter().position(fits)?;
        Some(self.last)
    }
}

impl Worker<'_> {
    #[inline(always)]
    pub fn span(&mut self, first: u64, end: u64, write: bool) -> Option<usize> {
        match self.cache.find(first, end, write) {
            Some(span) => Some(span),
            None => {
                self.open(first, write).ok()?;
                self.cache.find(first, end, write)
            }
        }
    }

    /// Asks the caller about an address, and keeps the answer.
    #[cold]
    pub fn open(&mut self, address: u64, write: bool) -> Result<usize, Mistake> {
        let contains = |region: &Region| address.wrapping_sub(region.base) < region.bytes;
        let region = match self.grid.memory.region(address) {
            Ok(region) if contains(&region) => region,
            Err(Refusal::Freed(which)) => return Err((FindingKind::Freed, which, None)),
            Err(Refusal::Denied(why)) => return Err((FindingKind::Denied, why, None)),
            Err(Refusal::Unmapped(near)) if !near.is_empty() => {
                return Err((FindingKind::OutOfBounds, near, None));
            }
            _ => return Err((FindingKind::OutOfBounds, "no memory is there".into(), None)),
        };
        let (base, end) = (region.base, region.base.saturating_add(region.bytes));
        let (mut lo, mut hi, mut writable, mut parameter) = (base, end, region.writable, None);
        let extents = self.grid.launch.extents.iter();
        let within =
            extents.filter(|extent| (base..end).contains(&extent.base) && extent.bytes > 0);
        let last = |extent: &Extent| extent.base.saturating_add(extent.bytes) - 1;
        // How far outside it is: 0 within. If several contain the address, the one that allows more.
        let before = |extent: &Extent| extent.base.saturating_sub(address);
        let gap = |extent: &Extent| before(extent).max(address.saturating_sub(last(extent)));
        let order = |extent: &&Extent| (gap(extent), Reverse((extent.writable, extent.bytes)));
        if let Some(extent) = within.min_by_key(order).filter(|_| self.checks.arguments) {
            if gap(extent) > 0 {
                let (bytes, place) = match before(extent) {
                    0 => (gap(extent) - 1, "after the end"),
                    bytes => (bytes, "before the begin"),
                };
                let text = format!("the address is {bytes} bytes {place} of the argument");
                let place = Some((region.id, Some(extent.parameter)));
                return Err((FindingKind::OutsideArgument, text, place));
            }
            (lo, hi) = (extent.base, end.min(last(extent) + 1));
            (writable, parameter) = (writable && extent.writable, Some(extent.parameter));
        }
        if write && !writable {
            let text = if region.writable {
                "a write through an argument that is read-only"
            } else {
                "a write to read-only memory"
            };
            let place = Some((region.id, parameter));
            return Err((FindingKind::ReadOnly, text.into(), place));
        }
        let pages = (region.page_bytes > 0).then(|| {
            let pages = self.grid.regions.pages.lock();
            let mut pages = pages.unwrap_or_else(PoisonError::into_inner);
            let new = || {
                let shift = region.page_bytes.trailing_zeros();
                let (first, last) = (base >> shift, (end - 1) >> shift);
                Arc::new(Pages {
                    base: first << shift,
                    shift,
                    touched: (first..=last).map(|_| AtomicU8::new(0)).collect(),
                })
            };
            pages.entry(region.id).or_insert_with(new).clone()
        });
        if self.cache.spans.len() >= 64 {
            self.cache.spans.clear();
        }
        let host = region.host.wrapping_add((lo - base) as usize);
        self.cache.spans.push(Span {
            lo,
            hi,
            host,
            writable,
            id: region.id,
            parameter,
            pages,
            written: region.written,
            base,
        });
        Ok(self.cache.spans.len() - 1)
    }

    /// The bits of a region that say what is written, and the region's first address.
    pub fn written(&mut self, address: u64) -> Option<(*mut u8, u64)> {
        let span = self.cache.find(address, address + 1, false)?;
        let span = &self.cache.spans[span];
        (!span.written.is_null()).then_some((span.written, span.base))
    }

    /// The region and the parameter of an address that was used.
    pub fn whose(&mut self, address: u64) -> Option<(u64, Option<usize>)> {
        let span = self.cache.find(address, address + 1, false)?;
        Some((self.cache.spans[span].id, self.cache.spans[span].parameter))
    }
}

impl At<'_, '_> {
    /// Tells the caller the pages that the launch touches for the first time.
    pub fn touch(&self, span: usize, located: &Located, size: u64, write: bool) {
        let (memory, block) = (self.worker.grid.memory, self.common.id);
        let span = &self.worker.cache.spans[span];
        let Some(pages) = &span.pages else { return };
        let bit = if write { 2 } else { 1 };
        let touch = |address: u64| {
            let page = (address - pages.base) >> pages.shift;
            let touched = &pages.touched[page as usize];
            if touched.load(Ordering::Acquire) & bit == 0 {
                let page = pages.base + (page << pages.shift);
                let region = span.id;
                memory.touch(Touch {
                    region,
                    page,
                    address,
                    write,
                    block,
                });
                // Only now: a thread that finds the bit accesses the page at once.
                touched.fetch_or(bit, Ordering::Release);
            }
        };
        if located.row {
            let (first, end) = (located.addresses[0], located.addresses[31] + size);
            let mut address = first;
            while address < end {
                touch(address);
                address = ((address >> pages.shift) + 1) << pages.shift;
            }
        } else {
            let mut last = u64::MAX;
            for lane in lanes(located.mask) {
                let address = located.addresses[lane];
                if address >> pages.shift != last {
                    last = address >> pages.shift;
                    touch(address);
                    touch(address + size - 1);
                }
            }
        }
    }
}
