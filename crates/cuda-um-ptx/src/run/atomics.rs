//! Read, change and write as one step: atomics, and the barriers in memory that are made of them.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Worker;
use super::access::{get, set};
use super::block::{Common, Warp};
use super::exec::{Flow, Stop};
use super::memory::{Kind, Located, lanes, locate};
use crate::math::float::{self, Bf16, Extreme, F16, Float};
use crate::math::{Mode, halves};
use crate::program::{AtomicOp, Mbarrier, Slot};
use crate::syntax::Type;

impl Worker<'_> {
    /// 9.7.13.15: phase (1 bit), expected arrivals (20), pending arrivals (20), and bytes that are on the way (23, signed).
    #[expect(clippy::too_many_arguments, reason = "as many operands")]
    pub fn mbarrier(
        &mut self,
        warp: &mut Warp,
        common: &mut Common,
        op: Mbarrier,
        address: crate::program::Address,
        d: Option<Slot>,
        operand: Option<Slot>,
        mask: u32,
        pc: usize,
    ) -> Result<Flow, Stop> {
        const COUNT: u64 = (1 << 20) - 1;
        const BYTES: u64 = (1 << 23) - 1;
        if op == Mbarrier::Pending {
            for lane in lanes(mask) {
                let state = operand.map_or(0, |slot| get(warp, slot, lane));
                if let Some(d) = d {
                    set(warp, d, lane, state >> 23 & COUNT);
                }
            }
            return Ok(Flow::Next);
        }
        let located = locate(self, warp, common, &address, 8, mask, true, pc)?;
        let kind = if op == Mbarrier::Init {
            Kind::Store
        } else {
            Kind::Atomic
        };
        self.account(warp, common, &located, 8, kind, pc)?;
        let mut waits = false;
        for lane in lanes(located.mask) {
            let cell = pointer(&located, lane, 8).cast::<u64>();
            // SAFETY: `locate` found 8 bytes there, of this block's shared memory.
            let old = unsafe { cell.read_unaligned() };
            let value = operand.map(|slot| get(warp, slot, lane));
            let pack = |phase: u64, expected: u64, pending: u64, bytes: u64| {
                phase << 63 | (expected & COUNT) << 43 | (pending & COUNT) << 23 | bytes & BYTES
            };
            let (phase, expected, pending, bytes) =
                (old >> 63, old >> 43 & COUNT, old >> 23 & COUNT, old & BYTES);
            // The phase ends with the last arrival, when no bytes are missing.
            let settle = |phase: u64, expected: u64, pending: u64, bytes: u64| match (
                pending & COUNT,
                bytes & BYTES,
            ) {
                (0, 0) => pack(phase ^ 1, expected, expected, 0),
                _ => pack(phase, expected, pending, bytes),
            };
            let new = match op {
                Mbarrier::Init => {
                    let count = value.unwrap_or(1);
                    pack(0, count, count, 0)
                }
                Mbarrier::Inval => 0,
                Mbarrier::ExpectTx => pack(
                    phase,
                    expected,
                    pending,
                    bytes.wrapping_add(value.unwrap_or(0)),
                ),
                Mbarrier::CompleteTx => settle(
                    phase,
                    expected,
                    pending,
                    bytes.wrapping_sub(value.unwrap_or(0)),
                ),
                Mbarrier::Arrive { drop, expect, .. } => {
                    let count = if expect { 1 } else { value.unwrap_or(1) };
                    let bytes = if expect {
                        bytes.wrapping_add(value.unwrap_or(0))
                    } else {
                        bytes
                    };
                    settle(
                        phase,
                        expected.wrapping_sub(u64::from(drop)),
                        pending.wrapping_sub(count),
                        bytes,
                    )
                }
                Mbarrier::Wait { .. } | Mbarrier::Pending => old,
            };
            if let Mbarrier::Wait { parity } = op {
                let asked = value.unwrap_or(0);
                let asked = if parity { asked & 1 } else { asked >> 63 };
                let done = phase != asked;
                waits |= !done;
                if let Some(d) = d {
                    set(warp, d, lane, done.into());
                }
            } else {
                // SAFETY: as above.
                unsafe { cell.write_unaligned(new) };
                if let Some(d) = d {
                    set(warp, d, lane, old);
                }
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
/// There is an element of `kind`, aligned.
pub(crate) unsafe fn atomic(
    pointer: *mut u8,
    op: AtomicOp,
    kind: Type,
    value: u64,
    other: u64,
) -> u64 {
    let new = |old: u64| update(op, kind, old, value, other);
    match kind.bytes() {
        8 => {
            // SAFETY: the caller's promise.
            let cell = unsafe { AtomicU64::from_ptr(pointer.cast()) };
            cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(new(old)))
                .unwrap_or_else(|old| old)
        }
        4 => {
            // SAFETY: the caller's promise.
            let cell = unsafe { AtomicU32::from_ptr(pointer.cast()) };
            cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                Some(new(old.into()) as u32)
            })
            .unwrap_or_else(|old| old)
            .into()
        }
        _ => {
            // SAFETY: the caller's promise.
            let cell = unsafe { std::sync::atomic::AtomicU16::from_ptr(pointer.cast()) };
            cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                Some(new(old.into()) as u16)
            })
            .unwrap_or_else(|old| old)
            .into()
        }
    }
}

fn update(op: AtomicOp, kind: Type, old: u64, value: u64, other: u64) -> u64 {
    let add = |kind: Type, old: u64, value: u64| match kind {
        Type::F32 => float::add::<f32>(
            Float::from_bits(old),
            Float::from_bits(value),
            Mode::default(),
        )
        .bits(),
        Type::F64 => float::add::<f64>(
            Float::from_bits(old),
            Float::from_bits(value),
            Mode::default(),
        )
        .bits(),
        Type::F16 => float::add::<F16>(
            Float::from_bits(old),
            Float::from_bits(value),
            Mode::default(),
        )
        .bits(),
        Type::Bf16 => float::add::<Bf16>(
            Float::from_bits(old),
            Float::from_bits(value),
            Mode::default(),
        )
        .bits(),
        _ => old.wrapping_add(value),
    };
    let packed = |f: &dyn Fn([u16; 2]) -> u16| halves([old as u32, value as u32], f).into();
    let half = |kind: Type, least: bool, [a, b]: [u16; 2]| match (kind, least) {
        (Type::F16 | Type::F16x2, true) => float::min(F16(a), F16(b), Extreme::default()).0,
        (Type::F16 | Type::F16x2, false) => float::max(F16(a), F16(b), Extreme::default()).0,
        (_, true) => float::min(Bf16(a), Bf16(b), Extreme::default()).0,
        (_, false) => float::max(Bf16(a), Bf16(b), Extreme::default()).0,
    };
    let wide = kind.bytes() == 8;
    match op {
        AtomicOp::And => old & value,
        AtomicOp::Or => old | value,
        AtomicOp::Xor => old ^ value,
        AtomicOp::Exchange => value,
        AtomicOp::Compare => {
            if old == value {
                other
            } else {
                old
            }
        }
        AtomicOp::Add if kind == Type::F16x2 => {
            packed(&|[a, b]| add(Type::F16, a.into(), b.into()) as u16)
        }
        AtomicOp::Add if kind == Type::Bf16x2 => {
            packed(&|[a, b]| add(Type::Bf16, a.into(), b.into()) as u16)
        }
        AtomicOp::Add => add(kind, old, value),
        AtomicOp::Inc => {
            if old as u32 >= value as u32 {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old as u32 == 0 || old as u32 > value as u32 {
                value
            } else {
                old - 1
            }
        }
        AtomicOp::Min | AtomicOp::Max => {
            let least = op == AtomicOp::Min;
            let first = match (kind.signed(), wide) {
                _ if matches!(kind, Type::F16x2 | Type::Bf16x2) => {
                    return packed(&|pair| half(kind, least, pair));
                }
                _ if matches!(kind, Type::F16 | Type::Bf16) => {
                    return half(kind, least, [old as u16, value as u16]).into();
                }
                (true, true) => (old as i64) < value as i64,
                (true, false) => (old as i32) < value as i32,
                _ => old < value,
            };
            if first == least { old } else { value }
        }
    }
}
