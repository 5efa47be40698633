//! Instructions with effects beyond the registers of one lane: shuffles, votes, matrices, clocks, calls.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::At;
use super::access::{get, set};
use super::block::Warp;
use super::exec::{Flow, Stop};
use super::fragments::{Fragment, Saved, State};
use super::memory::lanes;
use crate::launch::FindingKind;
use crate::math::{Scalar, Type, mma};
use crate::program::{Extra, Inst, Op, Shuffle, Slot, System};

/// Recursive calls within each other, at most.
const DEEPEST: usize = 512;

/// An instruction that is a function of one lane.
#[inline(always)]
pub(crate) fn scalar(warp: &mut Warp, function: &Scalar, extra: &Extra, mask: u32) {
    let Some(&Some(d)) = extra.d.first() else {
        return;
    };
    for lane in lanes(mask) {
        let mut values = [0; 4];
        for (value, slot) in values.iter_mut().zip(&extra.s) {
            *value = get(warp, *slot, lane);
        }
        set(warp, d, lane, function(values));
    }
}

fn registers<T: Copy>(file: &[[T; 32]], slots: &[Slot]) -> Vec<[T; 32]> {
    slots.iter().map(|slot| file[slot.index as usize]).collect()
}

pub(crate) fn set_of(lanes: impl Iterator<Item = usize>) -> u32 {
    lanes.fold(0, |all, lane| all | 1 << lane)
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
        let group = set_of(lanes(self.left).filter(|&lane| self.names[lane] == name));
        self.left &= !group;
        Some(group)
    }
}

impl At<'_, '_> {
    /// Source `index` of a lane; 0 if there is none.
    pub fn source(&self, extra: &Extra, index: usize, lane: usize) -> u64 {
        extra
            .s
            .get(index)
            .map_or(0, |slot| get(self.warp, *slot, lane))
    }

    pub fn result(&mut self, extra: &Extra, index: usize, lane: usize, value: u64) {
        if let Some(&Some(slot)) = extra.d.get(index) {
            set(self.warp, slot, lane, value);
        }
    }

    pub fn results(&mut self, extra: &Extra, mask: u32, value: impl Fn(usize) -> u64) {
        for lane in lanes(mask) {
            self.result(extra, 0, lane, value(lane));
        }
    }

    /// The groups of lanes with the same mask of members, if all members that are alive have come; otherwise the fragment waits.
    fn together(&mut self, fragment: &mut Fragment, extra: &Extra) -> Result<Option<Groups>, Stop> {
        let (mask, mut names) = (self.mask, [self.mask; 32]);
        let Some(members) = extra.members else {
            return Ok(Some(Groups { names, left: mask }));
        };
        let alive = self.warp.fragments.alive() | fragment.mask;
        for lane in lanes(mask) {
            let members = get(self.warp, members, lane) as u32;
            names[lane] = members;
            if self.worker.checks.barriers && members >> lane & 1 == 0 {
                let text =
                    format!("the lane is not in the mask {members:#010x} of lanes that take part");
                return self.fail(FindingKind::Barrier, lane, text);
            }
            if members & alive & !mask != 0 {
                let barrier = matches!(extra.op, Op::WarpBarrier)
                    .then_some(names[mask.trailing_zeros() as usize]);
                fragment.state = State::Lanes { barrier };
                return Ok(None);
            }
        }
        if let Some(checks) = &mut self.common.checks {
            checks.synchronize(self.warp.index);
        }
        Ok(Some(Groups { names, left: mask }))
    }

    #[inline(never)]
    pub fn extra(&mut self, fragment: &mut Fragment, inst: &Inst) -> Result<Flow, Stop> {
        let (grid, mask) = (self.worker.grid, self.mask);
        let extra = &grid.program.extras[inst.d as usize];
        let first = mask.trailing_zeros() as usize;
        let whole = matches!(extra.op, Op::Matrix { .. } | Op::Mma { .. });
        if whole && mask != u32::MAX {
            return self.whole_warp(fragment);
        }
        let together = matches!(
            extra.op,
            Op::Shuffle { .. } | Op::Vote(_) | Op::Match { .. } | Op::Redux(_) | Op::WarpBarrier
        );
        let mut groups = Groups {
            names: [0; 32],
            left: 0,
        };
        if together {
            match self.together(fragment, extra)? {
                Some(found) => groups = found,
                None => return Ok(Flow::Again),
            }
        }
        match &extra.op {
            Op::Scalar(function) => scalar(self.warp, function, extra, mask),
            &Op::Atomic {
                ref function,
                bytes,
            } => self.atomics(extra, function, bytes)?,
            &Op::Shuffle { from, up } => self.shuffle(extra, from, up)?,
            Op::Vote(result) => {
                for mask in groups {
                    let votes = self.warp.preds[extra.s[0].index as usize] & mask;
                    let result = result(votes, mask).into();
                    self.results(extra, mask, |_| result);
                }
            }
            &Op::Match { all } => {
                for mask in groups {
                    let values: [u64; 32] = std::array::from_fn(|lane| self.source(extra, 0, lane));
                    let same = |lane: usize| {
                        set_of(lanes(mask).filter(|&other| values[other] == values[lane]))
                    };
                    let whole = lanes(mask).all(|lane| same(lane) == mask);
                    for lane in lanes(mask) {
                        let found = if !all || whole { same(lane) } else { 0 };
                        self.result(extra, 0, lane, found.into());
                        self.result(extra, 1, lane, whole.into());
                    }
                }
            }
            Op::Redux(function) => {
                for mask in groups {
                    let values = lanes(mask).map(|lane| self.source(extra, 0, lane));
                    let result = values.reduce(|all, value| function([all, value, 0, 0]));
                    self.results(extra, mask, |_| result.unwrap_or(0));
                }
            }
            Op::ActiveMask => self.results(extra, mask, |_| mask.into()),
            Op::WarpBarrier => {}
            &Op::Barrier { arrive, reduce } => {
                return self.barrier(fragment, inst.d, arrive, reduce);
            }
            Op::CopyAsync { from, bytes } => self.copy_async(extra, from, u64::from(*bytes))?,
            &Op::Mbarrier(op) => return self.mbarrier(extra, op),
            &Op::Matrix { transposed, store } => self.matrix(extra, transposed, store)?,
            &Op::Mma { form, a, b } => {
                let (first, rest) = extra.s.split_at(a);
                let (second, third) = rest.split_at(b);
                if form.d == Type::F64 {
                    let [a, b, c] =
                        [first, second, third].map(|slots| registers(&self.warp.longs, slots));
                    let d = mma::mma_f64(form.m, form.k, &a, &b, &c);
                    for (slot, values) in extra.d.iter().flatten().zip(d) {
                        self.warp.longs[slot.index as usize] = values;
                    }
                } else {
                    let [a, b, c] =
                        [first, second, third].map(|slots| registers(&self.warp.words, slots));
                    for (slot, values) in extra.d.iter().flatten().zip(mma::mma(form, &a, &b, &c)) {
                        self.warp.words[slot.index as usize] = values;
                    }
                }
            }
            &Op::Clock { cycles, shift } => {
                let now = if cycles {
                    // A cycle for each instruction of the worker.
                    self.worker.counts.report.instructions + self.warp.fragments.clock()
                } else {
                    grid.memory.now().as_nanos() as u64
                };
                self.results(extra, mask, |_| now >> shift);
            }
            Op::Sleep => return Ok(Flow::Yield),
            Op::Fence => fence(Ordering::SeqCst),
            Op::Save => {
                if fragment.saves.len() >= DEEPEST {
                    let text =
                        format!("more than {DEEPEST} calls within each other: the stack is full");
                    return self.fail(FindingKind::OutOfBounds, first, text);
                }
                self.part(fragment);
                fragment.saves.push(Arc::new(Saved {
                    words: self.warp.words.clone(),
                    longs: self.warp.longs.clone(),
                    preds: self.warp.preds.clone(),
                    local: self.warp.local.clone(),
                }));
                return Ok(Flow::Wait);
            }
            Op::Restore(keep) => {
                if let Some(saved) = fragment.saves.pop() {
                    self.restore(&saved, keep);
                }
                return Ok(Flow::Wait);
            }
            &Op::Copy { from, to, bytes } => {
                for lane in lanes(mask) {
                    let base = lane * grid.program.local_bytes;
                    let from = base + from as usize;
                    self.warp
                        .local
                        .copy_within(from..from + bytes as usize, base + to as usize);
                }
            }
            Op::Call {
                system,
                arguments,
                result,
            } => match system {
                System::Print => {
                    for lane in lanes(mask) {
                        let count = self.print(lane, arguments)?;
                        if let Some(result) = result {
                            let at = lane * grid.program.local_bytes + *result as usize;
                            self.warp.local[at..at + 4].copy_from_slice(&count.to_le_bytes());
                        }
                    }
                }
                System::Assert => {
                    let text = self.assertion(first, arguments)?;
                    return self.fail(FindingKind::Assert, first, text);
                }
                System::SetConditional => {
                    for lane in lanes(mask) {
                        let handle = self.local(lane, arguments[0], 8);
                        let value = self.local(lane, arguments[1], 4) as u32;
                        if !grid.memory.set_conditional(handle, value) {
                            let text = format!("no graph has a condition {handle:#x}");
                            return self.fail(FindingKind::Denied, lane, text);
                        }
                    }
                }
            },
            Op::Trap => return self.fail(FindingKind::Trap, first, "the kernel ends itself"),
        }
        Ok(Flow::Next)
    }

    /// 9.7.9.6
    fn shuffle(&mut self, extra: &Extra, from: Shuffle, up: bool) -> Result<(), Stop> {
        let values: [u64; 32] = std::array::from_fn(|lane| self.source(extra, 0, lane));
        for lane in lanes(self.mask) {
            let by = self.source(extra, 1, lane) as usize & 31;
            let control = self.source(extra, 2, lane) as usize;
            let (segment, clamp) = (control >> 8 & 31, control & 31);
            // The least or greatest lane of the segment.
            let bound = lane & segment | clamp & !segment;
            let from = from(lane, by, segment);
            let inside = if up {
                from as isize >= bound as isize
            } else {
                from <= bound
            };
            let from = if inside { from & 31 } else { lane };
            // A lane that the block does not have gives some value, which its partner may ignore.
            let exists = self.warp.index * 32 + (from as u32) < self.worker.grid.threads;
            if self.worker.checks.barriers && self.mask >> from & 1 == 0 && exists {
                let text = format!("reads from lane {from}, which does not take part");
                return self.fail(FindingKind::Barrier, lane, text);
            }
            self.result(extra, 0, lane, values[from]);
            self.result(extra, 1, lane, inside.into());
        }
        Ok(())
    }

    /// Registers and local memory as they were before a call, but for what it returns.
    fn restore(&mut self, saved: &Saved, keep: &[(u32, u32, Option<Slot>)]) {
        let (bytes, warp) = (self.worker.grid.program.local_bytes, &mut *self.warp);
        let kept = |at: &usize| {
            let within = |&(offset, length, _): &(u32, u32, _)| {
                (offset..offset + length).contains(&(*at as u32))
            };
            keep.iter().any(within)
        };
        for lane in lanes(self.mask) {
            let results: Vec<_> = (keep.iter())
                .filter_map(|&(.., slot)| slot.map(|slot| (slot, get(warp, slot, lane))))
                .collect();
            for (to, from) in warp.words.iter_mut().zip(&saved.words) {
                to[lane] = from[lane];
            }
            for (to, from) in warp.longs.iter_mut().zip(&saved.longs) {
                to[lane] = from[lane];
            }
            for (to, from) in warp.preds.iter_mut().zip(&saved.preds) {
                *to = *to & !(1 << lane) | from & 1 << lane;
            }
            for at in (0..bytes).filter(|at| !kept(at)) {
                warp.local[lane * bytes + at] = saved.local[lane * bytes + at];
            }
            for (slot, value) in results {
                set(warp, slot, lane, value);
            }
        }
    }

    /// The lanes that do not take part go on.
    pub fn part(&mut self, fragment: &mut Fragment) {
        let rest = fragment.mask & !self.mask;
        if rest != 0 {
            self.warp
                .fragments
                .all
                .push(fragment.part(self.pc as u32 + 1, rest));
            fragment.mask = self.mask;
        }
    }

    /// Instructions of all lanes of a warp wait for those that are elsewhere; a lane that has ended never comes.
    fn whole_warp(&mut self, fragment: &mut Fragment) -> Result<Flow, Stop> {
        let alive = self.warp.fragments.alive() | fragment.mask;
        if alive != u32::MAX || self.mask != fragment.mask {
            let lane = if alive != u32::MAX {
                !alive
            } else {
                !self.mask
            }
            .trailing_zeros();
            let text =
                "the instruction needs all 32 lanes of the warp, and this one does not take part";
            return self.fail(FindingKind::Barrier, lane as usize, text);
        }
        fragment.state = State::Lanes { barrier: None };
        Ok(Flow::Again)
    }
}
