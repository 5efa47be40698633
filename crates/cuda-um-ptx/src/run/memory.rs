//! Addresses of lanes to pointers of the host: one check for a warp if the lanes are in one region.

#![expect(
    clippy::needless_range_loop,
    reason = "loops over lanes become vector instructions"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::Warp;
use super::exec::Stop;
use super::{At, Worker};
use crate::launch::{FindingKind, Refusal, Touch};
use crate::program::{Address, Class, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Slot};
use crate::syntax::Space;

/// Pages of regions that the launch has touched.
#[derive(Default)]
pub(crate) struct Regions {
    pages: Mutex<HashMap<u64, Arc<Pages>>>,
}

struct Pages {
    base: u64,
    shift: u32,
    /// Bit 0: read, bit 1: written.
    touched: Vec<AtomicU8>,
}

/// Device memory that the lanes may use: a region, or the part of it that an argument extends to.
pub(crate) struct Span {
    lo: u64,
    hi: u64,
    /// Of `lo`.
    host: *mut u8,
    writable: bool,
    id: u64,
    parameter: Option<usize>,
    pages: Option<Arc<Pages>>,
    /// Of the region, whose first address is `base`.
    written: *mut u8,
    base: u64,
}

/// What is wrong with an address: in words, and the region and the parameter that it belongs to.
type Mistake = (FindingKind, String, Option<(u64, Option<usize>)>);

/// The spans that a worker has used.
#[derive(Default)]
pub(crate) struct Cache {
    spans: Vec<Span>,
    last: usize,
}

impl Cache {
    #[inline(always)]
    fn find(&mut self, first: u64, end: u64, write: bool) -> Option<usize> {
        let fits = |span: &Span| first >= span.lo && end <= span.hi && (!write || span.writable);
        if self.spans.get(self.last).is_some_and(fits) {
            return Some(self.last);
        }
        self.last = self.spans.iter().position(fits)?;
        Some(self.last)
    }
}

/// Where the active lanes of an access are.
pub(crate) struct Located {
    /// One after the other, all 32, from the first pointer on.
    pub row: bool,
    pub pointers: [*mut u8; 32],
    /// Lanes that have a pointer.
    pub mask: u32,
    /// The space after generic addresses are resolved, and the addresses in it.
    pub space: Space,
    pub addresses: [u64; 32],
    /// The span, if the access as a whole is in one.
    span: Option<usize>,
}

#[inline(always)]
pub(crate) fn addresses(warp: &Warp, address: &Address) -> [u64; 32] {
    let offset = address.offset as u64;
    match address.base {
        None => [offset; 32],
        Some(Slot {
            class: Class::Long,
            index,
            ..
        }) => {
            let mut addresses = warp.longs[index as usize];
            for address in &mut addresses {
                *address = address.wrapping_add(offset);
            }
            addresses
        }
        Some(Slot { index, .. }) => {
            let (base, mut addresses) = (&warp.words[index as usize], [0; 32]);
            // 32-bit addresses wrap in 32 bits.
            for lane in 0..32 {
                addresses[lane] = u64::from(base[lane].wrapping_add(offset as u32));
            }
            addresses
        }
    }
}

/// The window of a generic address.
fn window(address: u64) -> (Space, u64) {
    match address >> 56 {
        1 => (Space::Shared, SHARED_WINDOW),
        2 => (Space::Local, LOCAL_WINDOW),
        3 => (Space::Param, PARAM_WINDOW),
        _ => (Space::Global, 0),
    }
}

impl Worker<'_> {
    #[inline(always)]
    fn span(&mut self, first: u64, end: u64, write: bool) -> Option<usize> {
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
    fn open(&mut self, address: u64, write: bool) -> Result<usize, Mistake> {
        let none = || String::from("no memory is there");
        let region = self
            .grid
            .memory
            .region(address)
            .map_err(|refusal| match refusal {
                Refusal::Unmapped(near) if near.is_empty() => {
                    (FindingKind::OutOfBounds, none(), None)
                }
                Refusal::Unmapped(near) => (FindingKind::OutOfBounds, near, None),
                Refusal::Freed(which) => (FindingKind::Freed, which, None),
                Refusal::Denied(why) => (FindingKind::Denied, why, None),
            })?;
        let (base, end) = (region.base, region.base.saturating_add(region.bytes));
        if address < base || address >= end {
            return Err((FindingKind::OutOfBounds, none(), None));
        }
        let (mut lo, mut hi, mut writable, mut parameter) = (base, end, region.writable, None);
        if self.checks.arguments {
            let within = self
                .grid
                .launch
                .extents
                .iter()
                .filter(|extent| extent.base >= base && extent.base < end && extent.bytes > 0);
            let contains = |extent: &&crate::Extent| {
                address >= extent.base && address - extent.base < extent.bytes
            };
            // If several contain the address, the one that allows more.
            match within
                .clone()
                .filter(contains)
                .max_by_key(|extent| (extent.writable, extent.bytes))
            {
                Some(extent) => {
                    (lo, hi) = (
                        extent.base,
                        end.min(extent.base.saturating_add(extent.bytes)),
                    );
                    (writable, parameter) = (writable && extent.writable, Some(extent.parameter));
                }
                None => {
                    let gap = |extent: &&crate::Extent| {
                        if address < extent.base {
                            extent.base - address
                        } else {
                            address - (extent.base + extent.bytes) + 1
                        }
                    };
                    if let Some(nearest) = within.min_by_key(gap) {
                        let (bytes, place) = match address < nearest.base {
                            true => (nearest.base - address, "before the begin"),
                            false => (address - (nearest.base + nearest.bytes), "after the end"),
                        };
                        let text = format!("the address is {bytes} bytes {place} of the argument");
                        let place = Some((region.id, Some(nearest.parameter)));
                        return Err((FindingKind::OutsideArgument, text, place));
                    }
                }
            }
        }
        if write && !writable {
            let text = if region.writable {
                "a write through an argument that is read-only"
            } else {
                "a write to read-only memory"
            };
            return Err((
                FindingKind::ReadOnly,
                text.into(),
                Some((region.id, parameter)),
            ));
        }
        let pages = (region.page_bytes > 0).then(|| {
            let mut pages = self
                .grid
                .regions
                .pages
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
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
    /// Where the lanes of `mask` access `size` bytes each.
    #[inline(always)]
    pub fn locate(
        &mut self,
        address: &Address,
        size: u64,
        mask: u32,
        write: bool,
    ) -> Result<Located, Stop> {
        let mut addresses = addresses(self.warp, address);
        let mut gaps = 0;
        for lane in 0..32 {
            gaps |= addresses[lane] ^ addresses[0].wrapping_add(lane as u64 * size);
        }
        let row = gaps == 0 && mask == u32::MAX;
        let (mut first, mut last, mut bits) = (u64::MAX, 0, 0);
        if row {
            (first, last, bits) = (addresses[0], addresses[31], addresses[0]);
        } else if mask == u32::MAX {
            for address in addresses {
                first = if address < first { address } else { first };
                last = if address > last { address } else { last };
                bits |= address;
            }
        } else {
            for lane in 0..32 {
                let there = mask >> lane & 1 != 0;
                let address = addresses[lane];
                first = first.min(if there { address } else { u64::MAX });
                last = last.max(if there { address } else { 0 });
                bits |= if there { address } else { 0 };
            }
        }
        let mut space = address.space;
        if space == Space::Generic {
            let (named, base) = window(first);
            if window(last).0 == named {
                space = named;
                if base != 0 {
                    (first, last) = (first - base, last - base);
                    for address in &mut addresses {
                        *address = address.wrapping_sub(base);
                    }
                }
            }
        }
        let aligned = bits & (size - 1) == 0 || !self.worker.checks.alignment;
        let end = last.wrapping_add(size);
        let mut located = Located {
            row,
            pointers: [std::ptr::null_mut(); 32],
            mask,
            space,
            addresses,
            span: None,
        };
        if aligned && end > last {
            let area = match space {
                Space::Shared if end <= self.common.shared_bytes as u64 => {
                    Some((self.common.shared(), 0))
                }
                Space::Param
                    if end <= self.worker.grid.launch.parameters.len() as u64 && !write =>
                {
                    Some((self.worker.grid.launch.parameters.as_ptr().cast_mut(), 0))
                }
                Space::Local if end <= self.worker.grid.program.local_bytes as u64 => {
                    let bytes = self.worker.grid.program.local_bytes;
                    located.row = false;
                    let base = self.warp.local.as_mut_ptr();
                    for lane in 0..32 {
                        located.pointers[lane] =
                            base.wrapping_add(lane * bytes + addresses[lane] as usize);
                    }
                    return Ok(located);
                }
                Space::Global | Space::Const => self.worker.span(first, end, write).map(|span| {
                    located.span = Some(span);
                    let span = &self.worker.cache.spans[span];
                    (span.host, span.lo)
                }),
                _ => None,
            };
            if let Some((host, lo)) = area {
                if row {
                    located.pointers[0] = host.wrapping_add((first - lo) as usize);
                } else {
                    for lane in 0..32 {
                        located.pointers[lane] =
                            host.wrapping_add(addresses[lane].wrapping_sub(lo) as usize);
                    }
                }
                if let Some(span) = located.span
                    && self.worker.cache.spans[span].pages.is_some()
                {
                    self.touch(span, &located, size, write);
                }
                return Ok(located);
            }
        }
        self.locate_each(&mut located, size, write)?;
        Ok(located)
    }

    /// Tells the caller the pages that the launch touches for the first time.
    fn touch(&self, span: usize, located: &Located, size: u64, write: bool) {
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

    /// A pointer for each lane on its own, or what is wrong with the first that has none.
    #[cold]
    fn locate_each(&mut self, located: &mut Located, size: u64, write: bool) -> Result<(), Stop> {
        located.row = false;
        for lane in lanes(located.mask) {
            match self.locate_one(located.space, lane, located.addresses[lane], size, write)? {
                Some(pointer) => located.pointers[lane] = pointer,
                None => located.mask &= !(1 << lane),
            }
        }
        Ok(())
    }

    pub fn locate_one(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        size: u64,
        write: bool,
    ) -> Result<Option<*mut u8>, Stop> {
        let checks = self.worker.checks;
        let mistake = |at: &Self, (kind, text, place): Mistake| {
            Err(at.finding(kind, lane, Some((address, size as u32)), place, text))
        };
        if checks.alignment && address & (size - 1) != 0 {
            let text = format!("the address is no multiple of {size}");
            return mistake(self, (FindingKind::Misaligned, text, None));
        }
        let (space, place) = match space {
            Space::Generic => {
                let (space, base) = window(address);
                (space, address - base)
            }
            space => (space, address),
        };
        let end = place.checked_add(size);
        let grid = self.worker.grid;
        let (local, parameters) = (grid.program.local_bytes, grid.launch.parameters);
        let (what, bytes, host) = match space {
            Space::Shared => ("shared", self.common.shared_bytes, self.common.shared()),
            Space::Local => (
                "local",
                local,
                self.warp.local.as_mut_ptr().wrapping_add(lane * local),
            ),
            Space::Param if write => {
                let text = "a write to the parameters".into();
                return mistake(self, (FindingKind::ReadOnly, text, None));
            }
            Space::Param => (
                "parameter",
                parameters.len(),
                parameters.as_ptr().cast_mut(),
            ),
            _ => return self.locate_global(lane, place, size, write),
        };
        match end {
            Some(end) if end <= bytes as u64 => Ok(Some(host.wrapping_add(place as usize))),
            _ if !checks.bounds => Ok(None),
            _ => {
                let text = format!("the {what} memory has {bytes} bytes");
                mistake(self, (FindingKind::OutOfBounds, text, None))
            }
        }
    }

    fn locate_global(
        &mut self,
        lane: usize,
        address: u64,
        size: u64,
        write: bool,
    ) -> Result<Option<*mut u8>, Stop> {
        let end = address.saturating_add(size);
        let worker = &mut *self.worker;
        let found = match worker.cache.find(address, end, write) {
            Some(span) => Ok(span),
            None => worker.open(address, write).and_then(|span| {
                let Span {
                    hi, id, parameter, ..
                } = worker.cache.spans[span];
                if end <= hi {
                    return Ok(span);
                }
                let kind = if parameter.is_some() {
                    FindingKind::OutsideArgument
                } else {
                    FindingKind::OutOfBounds
                };
                let text = format!("the access goes beyond the end by {} bytes", end - hi);
                Err((kind, text, Some((id, parameter))))
            }),
        };
        match found {
            Ok(span) => {
                let one = Located {
                    row: false,
                    pointers: [std::ptr::null_mut(); 32],
                    mask: 1 << lane,
                    space: Space::Global,
                    addresses: [address; 32],
                    span: Some(span),
                };
                self.touch(span, &one, size, write);
                let span = &self.worker.cache.spans[span];
                Ok(Some(span.host.wrapping_add((address - span.lo) as usize)))
            }
            Err((FindingKind::OutOfBounds | FindingKind::Freed | FindingKind::Denied, ..))
                if !self.worker.checks.bounds =>
            {
                Ok(None)
            }
            Err((kind, text, place)) => {
                Err(self.finding(kind, lane, Some((address, size as u32)), place, text))
            }
        }
    }

    /// Counts bytes, and looks at the lanes one by one if a check wants that.
    #[inline(always)]
    pub fn account(&mut self, located: &Located, size: u64, kind: Kind) -> Result<(), Stop> {
        let report = &mut self.worker.counts.report;
        let bytes = u64::from(located.mask.count_ones()) * size;
        let traffic = match located.space {
            Space::Shared => &mut report.shared,
            Space::Local | Space::Param => &mut report.local,
            _ => &mut report.global,
        };
        if kind.reads() {
            traffic.read += bytes;
        }
        if kind.writes() {
            traffic.written += bytes;
        }
        if self.worker.observing {
            self.observe(located, size, kind)
        } else {
            Ok(())
        }
    }
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Load,
    Store,
    /// Volatile and stronger: ordered among threads.
    StrongLoad,
    StrongStore,
    Atomic,
}

impl Kind {
    pub fn reads(self) -> bool {
        !matches!(self, Kind::Store | Kind::StrongStore)
    }

    pub fn writes(self) -> bool {
        !matches!(self, Kind::Load | Kind::StrongLoad)
    }
}

/// The set lanes of a mask.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}
