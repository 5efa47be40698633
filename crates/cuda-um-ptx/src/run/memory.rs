//! Addresses of lanes to pointers of the host: one check for a warp if the lanes are in one region.

#![expect(
    clippy::needless_range_loop,
    reason = "loops over lanes become vector instructions"
)]

use super::At;
use super::block::Warp;
use super::exec::Stop;
use super::regions::{Mistake, Span};
use crate::launch::FindingKind;
use crate::program::{Address, Class, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Slot};
use crate::syntax::Space;

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

impl Located {
    pub const NOWHERE: Self = Self {
        row: false,
        pointers: [std::ptr::null_mut(); 32],
        mask: 0,
        space: Space::Generic,
        addresses: [0; 32],
        span: None,
    };
}

#[inline(always)]
fn addresses(warp: &Warp, address: &Address) -> [u64; 32] {
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

impl At<'_, '_> {
    /// Where the lanes of `mask` access `size` bytes each.
    pub fn locate(
        &mut self,
        address: &Address,
        size: u64,
        mask: u32,
        write: bool,
    ) -> Result<Located, Stop> {
        let mut located = Located::NOWHERE;
        self.locate_to(&mut located, address, size, mask, write)?;
        Ok(located)
    }

    /// [`locate`](Self::locate) without a copy of what it finds.
    #[inline(always)]
    pub fn locate_to(
        &mut self,
        located: &mut Located,
        address: &Address,
        size: u64,
        mask: u32,
        write: bool,
    ) -> Result<(), Stop> {
        located.addresses = addresses(self.warp, address);
        let addresses = &mut located.addresses;
        let mut gaps = 0;
        for lane in 0..32 {
            gaps |= addresses[lane] ^ addresses[0].wrapping_add(lane as u64 * size);
        }
        let row = gaps == 0 && mask == u32::MAX;
        let (mut first, mut last, mut bits) = (addresses[0], addresses[31], addresses[0]);
        if !row {
            // As numbers with a sign, which vector instructions compare; no memory is at a negative address.
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            bits = 0;
            for lane in 0..32 {
                let there = mask >> lane & 1 != 0;
                let address = addresses[lane] as i64;
                least = least.min(if there { address } else { i64::MAX });
                most = most.max(if there { address } else { i64::MIN });
                bits |= if there { addresses[lane] } else { 0 };
            }
            (first, last) = (least as u64, most as u64);
        }
        let mut space = address.space;
        if space == Space::Generic {
            let (named, base) = window(first);
            if window(last).0 == named {
                space = named;
                if base != 0 {
                    (first, last) = (first - base, last - base);
                    for address in addresses.iter_mut() {
                        *address = address.wrapping_sub(base);
                    }
                }
            }
        }
        let aligned = bits & (size - 1) == 0 || !self.worker.checks.alignment;
        let end = last.wrapping_add(size);
        (located.row, located.mask, located.space, located.span) = (row, mask, space, None);
        if aligned && first <= last && end > last {
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
                            base.wrapping_add(lane * bytes + located.addresses[lane] as usize);
                    }
                    return Ok(());
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
                            host.wrapping_add(located.addresses[lane].wrapping_sub(lo) as usize);
                    }
                }
                if let Some(span) = located.span
                    && self.worker.cache.spans[span].pages.is_some()
                {
                    self.touch(span, located, size, write);
                }
                return Ok(());
            }
        }
        self.locate_each(located, size, write)
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
        let (named, base) = window(address);
        let generic = space == Space::Generic;
        let (space, place) = if generic {
            (named, address - base)
        } else {
            (space, address)
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
                let &Span {
                    hi, id, parameter, ..
                } = &worker.cache.spans[span];
                if end <= hi {
                    return Ok(span);
                }
                let kind = match parameter {
                    Some(_) => FindingKind::OutsideArgument,
                    None => FindingKind::OutOfBounds,
                };
                let text = format!("the access goes beyond the end by {} bytes", end - hi);
                Err((kind, text, Some((id, parameter))))
            }),
        };
        match found {
            Ok(span) => {
                let one = Located {
                    mask: 1 << lane,
                    addresses: [address; 32],
                    ..Located::NOWHERE
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
