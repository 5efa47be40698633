//! Read, change and write as one step: atomics, and the barriers in memory that are made of them.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::At;
use super::access::get;
use super::exec::{Flow, Stop};
use super::memory::{Kind, Located, lanes};
use crate::launch::FindingKind;
use crate::math::Scalar;
use crate::program::{Extra, Mbarrier};

impl At<'_, '_> {
    /// 9.7.13.5 atom, of one or several elements.
    pub fn atomics(&mut self, extra: &Extra, function: &Scalar, bytes: u64) -> Result<(), Stop> {
        let count = extra.d.len();
        let size = bytes * count as u64;
        let located = self.locate(&extra.address, size, self.mask, true)?;
        self.account(&located, size, Kind::Atomic)?;
        for lane in lanes(self.mask) {
            for element in 0..count {
                let value = self.source(extra, element, lane);
                let other = self.source(extra, count, lane);
                let pointer = pointer(&located, lane, size).wrapping_add(element * bytes as usize);
                let old = if located.mask >> lane & 1 == 0 {
                    0
                } else if pointer.addr() as u64 & (bytes - 1) == 0 {
                    // SAFETY: `locate` found an element there, which is aligned.
                    unsafe { atomic(pointer, bytes, |old| function([old, value, other, 0])) }
                } else {
                    let text = "an atomic operation on an address that is not aligned";
                    return self.fail(FindingKind::Misaligned, lane, text);
                };
                self.result(extra, element, lane, old);
            }
        }
        Ok(())
    }

    /// 9.7.13.15: phase (1 bit), expected arrivals (20), pending arrivals (20).
    pub fn mbarrier(&mut self, extra: &Extra, op: Mbarrier) -> Result<Flow, Stop> {
        const COUNT: u64 = (1 << 20) - 1;
        let located = self.locate(&extra.address, 8, self.mask, true)?;
        let kind = if op == Mbarrier::Init {
            Kind::Store
        } else {
            Kind::Atomic
        };
        self.account(&located, 8, kind)?;
        let mut waits = false;
        for lane in lanes(located.mask) {
            let cell = pointer(&located, lane, 8).cast::<u64>();
            // SAFETY: `locate` found 8 bytes there, of this block's shared memory.
            let old = unsafe { cell.read_unaligned() };
            let value = extra.s.first().map(|slot| get(self.warp, *slot, lane));
            let pack = |phase: u64, expected: u64, pending: u64| {
                phase << 63 | (expected & COUNT) << 43 | (pending & COUNT) << 23
            };
            let (phase, expected, pending) = (old >> 63, old >> 43 & COUNT, old >> 23 & COUNT);
            let count = value.unwrap_or(1);
            let new = match op {
                Mbarrier::Init => pack(0, count, count),
                Mbarrier::Inval => 0,
                Mbarrier::Arrive { drop } => {
                    let expected = expected.wrapping_sub(drop.into());
                    // The phase ends with the last arrival.
                    match pending.wrapping_sub(count) & COUNT {
                        0 => pack(phase ^ 1, expected, expected),
                        pending => pack(phase, expected, pending),
                    }
                }
                Mbarrier::Wait { .. } => old,
            };
            if let Mbarrier::Wait { parity } = op {
                let asked = value.unwrap_or(0);
                let asked = if parity { asked & 1 } else { asked >> 63 };
                let done = phase != asked;
                waits |= !done;
                self.result(extra, 0, lane, done.into());
            } else {
                // SAFETY: as above.
                unsafe { cell.write_unaligned(new) };
                self.result(extra, 0, lane, old);
            }
        }
        Ok(if waits { Flow::Yield } else { Flow::Next })
    }
}

pub(crate) fn pointer(located: &Located, lane: usize, size: u64) -> *mut u8 {
    if located.row {
        located.pointers[0].wrapping_add(lane * size as usize)
    } else {
        located.pointers[lane]
    }
}

/// 9.7.13.5 atom: the old value.
///
/// # Safety
/// There is an element of that many bytes, aligned.
unsafe fn atomic(pointer: *mut u8, bytes: u64, new: impl Fn(u64) -> u64) -> u64 {
    macro_rules! update {
        ($type:ty, $bits:ty) => {{
            // SAFETY: the caller's promise.
            let cell = unsafe { <$type>::from_ptr(pointer.cast()) };
            let new = |old: $bits| Some(new(old.into()) as $bits);
            let old = cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, new);
            old.unwrap_or_else(|old| old).into()
        }};
    }
    match bytes {
        8 => update!(AtomicU64, u64),
        4 => update!(AtomicU32, u32),
        _ => update!(AtomicU16, u16),
    }
}
