//! Instructions with effects beyond the registers of one lane: atomics, shuffles, votes, barriers, matrices, clocks.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::Worker;
use super::access::{get, set};
use super::atomics::{atomic, pointer};
use super::block::{Common, Warp};
use super::exec::{Flow, Stop};
use super::fragments::{Fragment, Saved, State};
use super::memory::{Kind, lanes, locate};
use crate::launch::FindingKind;
use crate::math::mma;
use crate::program::{Clock, Extra, Inst, Scalar, Shuffle, Slot, Vote};

/// Recursive calls within each other, at most.
const DEEPEST: usize = 512;

/// An instruction that is a function of one lane.
pub(crate) fn scalar(warp: &mut Warp, function: &Scalar, d: Slot, sources: &[Slot], mask: u32) {
    for lane in lanes(mask) {
        let mut values = [0; 4];
        for (value, slot) in values.iter_mut().zip(sources) {
            *value = get(warp, *slot, lane);
        }
        set(warp, d, lane, function(values));
    }
}

fn words(warp: &Warp, slots: &[Slot]) -> [[u32; 32]; 8] {
    let mut all = [[0; 32]; 8];
    for (words, slot) in all.iter_mut().zip(slots) {
        *words = warp.words[slot.index as usize];
    }
    all
}

fn longs(warp: &Warp, slots: &[Slot]) -> [[u64; 32]; 8] {
    let mut all = [[0; 32]; 8];
    for (longs, slot) in all.iter_mut().zip(slots) {
        *longs = warp.longs[slot.index as usize];
    }
    all
}

/// Lanes that an instruction of a warp combines: those that name the same members.
struct Groups {
    names: [u32; 32],
    left: u32,
}

impl Iterator for Groups {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let name = self.names[lanes(self.left).next()?];
        let group = lanes(self.left)
            .filter(|&lane| self.names[lane] == name)
            .fold(0, |all, lane| all | 1 << lane);
        self.left &= !group;
        Some(group)
    }
}

impl Worker<'_> {
    /// The groups of lanes with the same mask of members, if all members that are alive have come; otherwise the fragment waits.
    fn together(
        &mut self,
        warp: &Warp,
        common: &mut Common,
        fragment: &mut Fragment,
        members: Option<Slot>,
        mask: u32,
        pc: usize,
    ) -> Result<Option<Groups>, Stop> {
        let Some(members) = members else {
            return Ok(Some(Groups {
                names: [mask; 32],
                left: mask,
            }));
        };
        let names = std::array::from_fn(|lane| get(warp, members, lane) as u32);
        let alive = warp.fragments.alive() | fragment.mask;
        for lane in lanes(mask) {
            let members: u32 = names[lane];
            if self.checks.barriers && members >> lane & 1 == 0 {
                let thread = warp.index * 32 + lane as u32;
                let text =
                    format!("the lane is not in the mask {members:#010x} of lanes that take part");
                return Err(self
                    .grid
                    .finding(FindingKind::Barrier, pc, common.id, thread, text)
                    .into());
            }
            if members & alive & !mask != 0 {
                fragment.state = State::Lanes { barrier: None };
                return Ok(None);
            }
        }
        if let Some(checks) = &mut common.checks {
            checks.synchronize(warp.index);
        }
        Ok(Some(Groups { names, left: mask }))
    }

    pub fn finish_reduction(
        &mut self,
        warp: &mut Warp,
        common: &Common,
        id: u8,
        extra: u32,
        mask: u32,
    ) {
        if let Extra::Barrier {
            reduce: Some((op, d, ..)),
            ..
        } = &self.grid.program.extras[extra as usize]
        {
            let value = common.barriers.reduction(id, *op);
            for lane in lanes(mask) {
                set(warp, *d, lane, value.into());
            }
        }
    }

    #[inline(never)]
    pub fn extra(
        &mut self,
        warp: &mut Warp,
        common: &mut Common,
        fragment: &mut Fragment,
        inst: &Inst,
        mask: u32,
        pc: usize,
    ) -> Result<Flow, Stop> {
        let grid = self.grid;
        let each = |warp: &mut Warp, d: Slot, mask: u32, f: &dyn Fn(usize) -> u64| {
            for lane in lanes(mask) {
                set(warp, d, lane, f(lane));
            }
        };
        match &grid.program.extras[inst.d as usize] {
            Extra::Scalar {
                function,
                d,
                sources,
            } => scalar(warp, function, *d, sources, mask),
            &Extra::Carry {
                d,
                a,
                b,
                subtract,
                carry_in,
                carry_out,
            } => {
                let mut carries = warp.preds[inst.a as usize];
                for lane in lanes(mask) {
                    let (x, y) = (get(warp, a, lane), get(warp, b, lane));
                    let carry = i128::from(carry_in && carries >> lane & 1 != 0);
                    let sum = if subtract {
                        i128::from(x) - i128::from(y) - carry
                    } else {
                        i128::from(x) + i128::from(y) + carry
                    };
                    set(warp, d, lane, sum as u64 & a.mask());
                    let out = u32::from(sum < 0 || sum > i128::from(a.mask()));
                    carries = carries & !(1 << lane) | out << lane;
                }
                if carry_out {
                    warp.preds[inst.a as usize] = carries;
                }
            }
            Extra::Atomic {
                address,
                op,
                kind,
                d,
                b,
                c,
            } => {
                let bytes = kind.bytes();
                let size = bytes * b.len() as u64;
                let located = locate(self, warp, common, address, size, mask, true, pc)?;
                self.account(warp, common, &located, size, Kind::Atomic, pc)?;
                for lane in lanes(mask) {
                    for (element, (&b, &d)) in b.iter().zip(d).enumerate() {
                        let (value, other) =
                            (get(warp, b, lane), c.map_or(0, |c| get(warp, c, lane)));
                        let pointer =
                            pointer(&located, lane, size).wrapping_add(element * bytes as usize);
                        let old = if located.mask >> lane & 1 == 0 {
                            0
                        } else if pointer.addr() as u64 & (bytes - 1) == 0 {
                            // SAFETY: `locate` found an element there, which is aligned.
                            unsafe { atomic(pointer, *op, *kind, value, other) }
                        } else {
                            let thread = warp.index * 32 + lane as u32;
                            return Err(grid
                                .finding(
                                    FindingKind::Misaligned,
                                    pc,
                                    common.id,
                                    thread,
                                    "an atomic operation on an address that is not aligned",
                                )
                                .into());
                        };
                        if let Some(d) = d {
                            set(warp, d, lane, old);
                        }
                    }
                }
            }
            &Extra::Shuffle {
                mode,
                d,
                p,
                a,
                b,
                c,
                members,
            } => {
                if self
                    .together(warp, common, fragment, members, mask, pc)?
                    .is_none()
                {
                    return Ok(Flow::Again);
                }
                let values: [u64; 32] = std::array::from_fn(|lane| get(warp, a, lane));
                for lane in lanes(mask) {
                    let (by, control) = (
                        get(warp, b, lane) as usize & 31,
                        get(warp, c, lane) as usize,
                    );
                    let (segment, clamp) = (control >> 8 & 31, control & 31);
                    // 9.7.9.6: the least or greatest lane of the segment.
                    let bound = lane & segment | clamp & !segment;
                    let (from, inside) = match mode {
                        Shuffle::Up => (
                            lane.wrapping_sub(by),
                            lane as isize - by as isize >= bound as isize,
                        ),
                        Shuffle::Down => (lane + by, lane + by <= bound),
                        Shuffle::Butterfly => (lane ^ by, lane ^ by <= bound),
                        Shuffle::Index => (
                            lane & segment | by & !segment,
                            lane & segment | by & !segment <= bound,
                        ),
                    };
                    let from = if inside { from & 31 } else { lane };
                    // A lane that the block does not have gives some value, which its partner may ignore.
                    let thread = warp.index * 32 + from as u32;
                    if self.checks.barriers && mask >> from & 1 == 0 && thread < grid.threads {
                        let text = format!("reads from lane {from}, which does not take part");
                        let at = warp.index * 32 + lane as u32;
                        return Err(grid
                            .finding(FindingKind::Barrier, pc, common.id, at, text)
                            .into());
                    }
                    set(warp, d, lane, values[from]);
                    if let Some(p) = p {
                        set(warp, p, lane, inside.into());
                    }
                }
            }
            &Extra::Vote {
                mode,
                d,
                source,
                negated,
                members,
            } => {
                let Some(groups) = self.together(warp, common, fragment, members, mask, pc)? else {
                    return Ok(Flow::Again);
                };
                for mask in groups {
                    let votes = (warp.preds[source.index as usize]
                        ^ u32::from(negated).wrapping_neg())
                        & mask;
                    let result = match mode {
                        Vote::All => u32::from(votes == mask),
                        Vote::Any => u32::from(votes != 0),
                        Vote::Uniform => u32::from(votes == mask || votes == 0),
                        Vote::Ballot => votes,
                    };
                    each(warp, d, mask, &|_| result.into());
                }
            }
            &Extra::Match {
                all,
                d,
                p,
                a,
                members,
            } => {
                let Some(groups) =
                    self.together(warp, common, fragment, Some(members), mask, pc)?
                else {
                    return Ok(Flow::Again);
                };
                for mask in groups {
                    let values: [u64; 32] = std::array::from_fn(|lane| get(warp, a, lane));
                    let same = |lane: usize| {
                        lanes(mask)
                            .filter(|&other| values[other] == values[lane])
                            .fold(0u32, |all, other| all | 1 << other)
                    };
                    let whole = lanes(mask).all(|lane| same(lane) == mask);
                    each(warp, d, mask, &|lane| {
                        if all {
                            if whole { mask.into() } else { 0 }
                        } else {
                            same(lane).into()
                        }
                    });
                    if let Some(p) = p {
                        each(warp, p, mask, &|_| whole.into());
                    }
                }
            }
            Extra::Redux {
                function,
                d,
                a,
                members,
            } => {
                let Some(groups) =
                    self.together(warp, common, fragment, Some(*members), mask, pc)?
                else {
                    return Ok(Flow::Again);
                };
                for mask in groups {
                    let values: Vec<u64> = lanes(mask).map(|lane| get(warp, *a, lane)).collect();
                    let result = values
                        .into_iter()
                        .reduce(|all, value| function([all, value, 0, 0]))
                        .unwrap_or(0);
                    each(warp, *d, mask, &|_| result);
                }
            }
            &Extra::Elect { d, p, members } => {
                let Some(groups) =
                    self.together(warp, common, fragment, Some(members), mask, pc)?
                else {
                    return Ok(Flow::Again);
                };
                for mask in groups {
                    let leader = mask.trailing_zeros() as usize;
                    if let Some(d) = d {
                        each(warp, d, mask, &|_| leader as u64);
                    }
                    each(warp, p, mask, &|lane| u64::from(lane == leader));
                }
            }
            &Extra::ActiveMask { d } => each(warp, d, mask, &|_| mask.into()),
            &Extra::WarpBarrier { members } => {
                let names = get(warp, members, mask.trailing_zeros() as usize) as u32;
                if self
                    .together(warp, common, fragment, Some(members), mask, pc)?
                    .is_none()
                {
                    fragment.state = State::Lanes {
                        barrier: Some(names),
                    };
                    return Ok(Flow::Again);
                }
            }
            Extra::Barrier {
                id,
                count,
                arrive,
                reduce,
            } => {
                let first = mask.trailing_zeros() as usize;
                let id = get(warp, *id, first) as u8 & 15;
                let count = count.map(|count| get(warp, count, first) as u32);
                let values = match reduce {
                    Some((_, _, source, negated)) => {
                        warp.preds[source.index as usize] ^ u32::from(*negated).wrapping_neg()
                    }
                    None => 0,
                };
                let phase = common.barriers.phase(id);
                let fresh = common
                    .barriers
                    .arrive(id, warp.index, mask, count, pc as u32, values);
                let thread = warp.index * 32 + first as u32;
                if !fresh && self.checks.barriers {
                    return Err(grid
                        .finding(
                            FindingKind::Barrier,
                            pc,
                            common.id,
                            thread,
                            format!("the thread has arrived at barrier {id} already"),
                        )
                        .into());
                }
                if self.checks.barriers && common.barriers.elsewhere(id, warp.index, pc as u32) {
                    let text = "lanes of the warp wait at another barrier: not all threads of the block reach the same one";
                    return Err(grid
                        .finding(FindingKind::Barrier, pc, common.id, thread, text)
                        .into());
                }
                if let Some(checks) = &mut common.checks {
                    checks.arrive(id, warp.index);
                }
                let missing = self.look_at_barrier(common, id.into());
                if let Some(missing) = missing {
                    self.missing(common, missing)?;
                }
                self.part(warp, fragment, mask, pc);
                if *arrive {
                    return Ok(Flow::Wait);
                }
                fragment.state = State::Barrier {
                    id,
                    phase,
                    reduce: reduce.is_some().then_some(inst.d),
                };
                return Ok(Flow::Wait);
            }
            Extra::CopyAsync {
                to,
                from,
                bytes,
                size,
                ignore,
            } => {
                let size_of = u64::from(*bytes);
                let target = locate(self, warp, common, to, size_of, mask, true, pc)?;
                let reads = lanes(mask).filter(|&lane| {
                    let ignored =
                        ignore.is_some_and(|(p, negated)| (get(warp, p, lane) != 0) != negated);
                    !ignored && size.is_none_or(|size| get(warp, size, lane) != 0)
                });
                let reads = reads.fold(0, |all, lane| all | 1 << lane);
                let counts: [usize; 32] = std::array::from_fn(|lane| {
                    if reads >> lane & 1 == 0 {
                        0
                    } else {
                        size.map_or(u64::from(*bytes), |size| get(warp, size, lane))
                            .min(size_of) as usize
                    }
                });
                // The copy is a read and a write of the thread.
                let source = if reads != 0 {
                    Some(locate(self, warp, common, from, size_of, reads, false, pc)?)
                } else {
                    None
                };
                if let Some(source) = &source {
                    self.account(warp, common, source, size_of, Kind::Load, pc)?;
                }
                self.account(warp, common, &target, size_of, Kind::Store, pc)?;
                for lane in lanes(target.mask) {
                    let mut buffer = [0u8; 16];
                    if let Some(source) = &source
                        && source.mask >> lane & 1 != 0
                    {
                        // SAFETY: `locate` found that many readable bytes.
                        unsafe {
                            pointer(source, lane, size_of)
                                .copy_to_nonoverlapping(buffer.as_mut_ptr(), counts[lane])
                        };
                    }
                    // SAFETY: `locate` found that many writable bytes.
                    unsafe {
                        pointer(&target, lane, size_of)
                            .copy_from_nonoverlapping(buffer.as_ptr(), *bytes as usize)
                    };
                }
            }
            Extra::Mbarrier {
                op,
                address,
                d,
                operand,
            } => return self.mbarrier(warp, common, *op, *address, *d, *operand, mask, pc),
            Extra::Matrix {
                address,
                slots,
                transposed,
                store,
            } => {
                let rows = if slots.len() == 4 {
                    u32::MAX
                } else {
                    (1 << (8 * slots.len())) - 1
                };
                if mask != u32::MAX {
                    return self.whole_warp(warp, common, fragment, mask, pc);
                }
                let located = locate(self, warp, common, address, 16, rows, *store, pc)?;
                self.account(
                    warp,
                    common,
                    &located,
                    16,
                    if *store { Kind::Store } else { Kind::Load },
                    pc,
                )?;
                for (matrix, &slot) in slots.iter().enumerate() {
                    for lane in 0..32 {
                        let mut value = 0;
                        for (half, (row, column)) in mma::matrix_elements(lane, *transposed)
                            .into_iter()
                            .enumerate()
                        {
                            let of = matrix * 8 + row;
                            if located.mask >> of & 1 == 0 {
                                continue;
                            }
                            let element = pointer(&located, of, 16)
                                .wrapping_add(column * 2)
                                .cast::<u16>();
                            if *store {
                                let word = warp.words[slot.index as usize][lane];
                                // SAFETY: `locate` found 16 writable bytes for the row.
                                unsafe { element.write_unaligned((word >> (16 * half)) as u16) };
                            } else {
                                // SAFETY: `locate` found 16 readable bytes for the row.
                                value |=
                                    u32::from(unsafe { element.read_unaligned() }) << (16 * half);
                            }
                        }
                        if !store {
                            warp.words[slot.index as usize][lane] = value;
                        }
                    }
                }
            }
            Extra::MoveMatrix { d, a } => {
                if mask != u32::MAX {
                    return self.whole_warp(warp, common, fragment, mask, pc);
                }
                let a = warp.words[a.index as usize];
                let element = |row: usize, column: usize| {
                    a[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff
                };
                warp.words[d.index as usize] = std::array::from_fn(|lane| {
                    let [(r0, c0), (r1, c1)] = mma::matrix_elements(lane, true);
                    element(r0, c0) | element(r1, c1) << 16
                });
            }
            Extra::Mma { form, d, a, b, c } => {
                if mask != u32::MAX {
                    return self.whole_warp(warp, common, fragment, mask, pc);
                }
                let (a, b, c) = (words(warp, a), words(warp, b), words(warp, c));
                let result = mma::mma(*form, &a, &b, &c);
                for (slot, values) in d.iter().zip(result) {
                    warp.words[slot.index as usize] = values;
                }
            }
            Extra::MmaDouble { m, k, d, a, b, c } => {
                if mask != u32::MAX {
                    return self.whole_warp(warp, common, fragment, mask, pc);
                }
                let (a, b, c) = (longs(warp, a), longs(warp, b), longs(warp, c));
                let result = mma::mma_f64(*m, *k, &a, &b, &c);
                for (slot, values) in d.iter().zip(result) {
                    warp.longs[slot.index as usize] = values;
                }
            }
            &Extra::Clock { d, clock, shift } => {
                let now = match clock {
                    // A cycle for each instruction of the worker.
                    Clock::Cycles => self.counts.report.instructions + warp.fragments.clock(),
                    Clock::Nanoseconds => grid.memory.now().as_nanos() as u64,
                };
                each(warp, d, mask, &|_| now >> shift);
            }
            Extra::Sleep => return Ok(Flow::Yield),
            Extra::Fence => fence(Ordering::SeqCst),
            Extra::Save => {
                if fragment.saves.len() >= DEEPEST {
                    let thread = warp.index * 32 + mask.trailing_zeros();
                    let text =
                        format!("more than {DEEPEST} calls within each other: the stack is full");
                    return Err(grid
                        .finding(FindingKind::OutOfBounds, pc, common.id, thread, text)
                        .into());
                }
                self.part(warp, fragment, mask, pc);
                let (words, longs, preds, local) = (
                    warp.words.clone(),
                    warp.longs.clone(),
                    warp.preds.clone(),
                    warp.local.clone(),
                );
                fragment.saves.push(Arc::new(Saved {
                    words,
                    longs,
                    preds,
                    local,
                }));
                return Ok(Flow::Wait);
            }
            Extra::Restore { keep } => {
                let bytes = grid.program.local_bytes;
                if let Some(saved) = fragment.saves.pop() {
                    let kept: Vec<u64> = keep
                        .iter()
                        .flat_map(|&(.., slot)| {
                            slot.map(|slot| lanes(mask).map(move |lane| (slot, lane)))
                        })
                        .flatten()
                        .map(|(slot, lane)| get(warp, slot, lane))
                        .collect();
                    let mut kept = kept.into_iter();
                    for lane in lanes(mask) {
                        warp.words
                            .iter_mut()
                            .zip(&saved.words)
                            .for_each(|(to, from)| to[lane] = from[lane]);
                        warp.longs
                            .iter_mut()
                            .zip(&saved.longs)
                            .for_each(|(to, from)| to[lane] = from[lane]);
                        let bit = 1 << lane;
                        warp.preds
                            .iter_mut()
                            .zip(&saved.preds)
                            .for_each(|(to, from)| *to = *to & !bit | from & bit);
                        for at in 0..bytes {
                            if !keep.iter().any(|&(offset, length, _)| {
                                (offset..offset + length).contains(&(at as u32))
                            }) {
                                warp.local[lane * bytes + at] = saved.local[lane * bytes + at];
                            }
                        }
                    }
                    for &(.., slot) in keep {
                        for lane in lanes(if slot.is_some() { mask } else { 0 }) {
                            if let (Some(slot), Some(value)) = (slot, kept.next()) {
                                set(warp, slot, lane, value);
                            }
                        }
                    }
                }
                return Ok(Flow::Wait);
            }
            &Extra::Copy { from, to, bytes } => {
                for lane in lanes(mask) {
                    let base = lane * grid.program.local_bytes;
                    let from = base + from as usize;
                    warp.local
                        .copy_within(from..from + bytes as usize, base + to as usize);
                }
            }
            &Extra::Print {
                format,
                arguments,
                result,
            } => {
                for lane in lanes(mask) {
                    let count = self.print(warp, common, lane, format, arguments, pc)?;
                    if let Some(result) = result {
                        let at = lane * grid.program.local_bytes + result as usize;
                        warp.local[at..at + 4].copy_from_slice(&count.to_le_bytes());
                    }
                }
            }
            &Extra::Assert {
                message,
                file,
                line,
            } => {
                let lane = mask.trailing_zeros() as usize;
                let text = self.assertion(warp, common, lane, [message, file, line], pc)?;
                return Err(grid
                    .finding(
                        FindingKind::Assert,
                        pc,
                        common.id,
                        warp.index * 32 + lane as u32,
                        text,
                    )
                    .into());
            }
            &Extra::SetConditional { handle, value } => {
                for lane in lanes(mask) {
                    let local = &warp.local[lane * grid.program.local_bytes..];
                    let field = |at: u32, bytes: usize| {
                        let field = local[at as usize..][..bytes].iter().rev();
                        field.fold(0, |number, &byte| number << 8 | u64::from(byte))
                    };
                    let (handle, value) = (field(handle, 8), field(value, 4) as u32);
                    if !grid.memory.set_conditional(handle, value) {
                        let text = format!("no graph has a condition {handle:#x}");
                        let thread = warp.index * 32 + lane as u32;
                        let kind = FindingKind::Denied;
                        return Err(grid.finding(kind, pc, common.id, thread, text).into());
                    }
                }
            }
            Extra::Trap => {
                let thread = warp.index * 32 + mask.trailing_zeros();
                return Err(grid
                    .finding(
                        FindingKind::Trap,
                        pc,
                        common.id,
                        thread,
                        "the kernel ends itself",
                    )
                    .into());
            }
        }
        Ok(Flow::Next)
    }

    /// The lanes that do not take part go on.
    fn part(&self, warp: &mut Warp, fragment: &mut Fragment, mask: u32, pc: usize) {
        let rest = fragment.mask & !mask;
        if rest != 0 {
            warp.fragments.all.push(fragment.part(pc as u32 + 1, rest));
            fragment.mask = mask;
        }
    }

    /// Instructions of all lanes of a warp wait for those that are elsewhere; a lane that has ended never comes.
    fn whole_warp(
        &mut self,
        warp: &Warp,
        common: &Common,
        fragment: &mut Fragment,
        mask: u32,
        pc: usize,
    ) -> Result<Flow, Stop> {
        let alive = warp.fragments.alive() | fragment.mask;
        if alive != u32::MAX || mask != fragment.mask {
            let lane = if alive != u32::MAX {
                (!alive).trailing_zeros()
            } else {
                (!mask).trailing_zeros()
            };
            let text =
                "the instruction needs all 32 lanes of the warp, and this one does not take part";
            return Err(self
                .grid
                .finding(
                    FindingKind::Barrier,
                    pc,
                    common.id,
                    warp.index * 32 + lane,
                    text,
                )
                .into());
        }
        fragment.state = State::Lanes { barrier: None };
        Ok(Flow::Again)
    }
}
