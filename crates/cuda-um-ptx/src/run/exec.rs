//! The loop over instructions: one dispatch a warp instruction, then a loop over lanes.

#![expect(
    unsafe_code,
    reason = "the loop is compiled for CPUs with AVX2 and FMA, too"
)]

use super::block::{Common, Warp};
use super::codes;
use super::collective::scalar;
use super::fragments::{Fragment, State};
use super::memory::lanes;
use super::{At, Worker};
use crate::launch::{Failure, Finding, FindingKind};
use crate::program::{Code, Inst, Op};

/// The launch is over.
pub(crate) struct Stop(pub Box<Failure>);

impl From<Box<Finding>> for Stop {
    fn from(finding: Box<Finding>) -> Self {
        Self(Box::new(Failure::Finding(finding)))
    }
}

/// Why a fragment does not go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another one may be next.
    Stopped,
    /// Its lanes have ended.
    Ended,
    /// It waits for what another warp or block does.
    Yield,
}

/// What an instruction with effects beyond registers does to the flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    /// The same instruction again, when other lanes have come; the state is set.
    Again,
    /// The next instruction, when a barrier is complete; the state is set.
    Wait,
    Yield,
}

impl Worker<'_> {
    /// Runs the fragments of a warp until all wait or the turn is over. Whether any ran.
    pub fn run_warp(
        &mut self,
        warp: &mut Warp,
        common: &mut Common,
        turn: u64,
    ) -> Result<bool, Stop> {
        let (mut left, mut ran) = (turn, false);
        while left > 0 {
            let Some((mut fragment, limit, quota)) = warp.fragments.next(&common.barriers) else {
                break;
            };
            ran = true;
            let state = std::mem::replace(&mut fragment.state, State::Ready);
            self.refill(fragment.pc)?;
            let quota = quota.min(left).min(self.budget);
            let mut at = At {
                worker: self,
                warp,
                common,
                mask: fragment.mask,
                pc: fragment.pc as usize,
            };
            if let State::Barrier { id, reduce, .. } = state
                && let Some(extra) = reduce
            {
                at.finish_reduction(id, extra);
            }
            let (event, used) = execute_best(at, &mut fragment, limit, quota)?;
            self.budget -= used;
            left -= used;
            warp.fragments.executed(used);
            if event != Event::Ended {
                warp.fragments.all.push(fragment);
            }
            if event == Event::Yield {
                break;
            }
        }
        Ok(ran)
    }

    /// Takes instructions from those that are left to the launch.
    fn refill(&mut self, pc: u32) -> Result<(), Stop> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.budget > 0 {
            return Ok(());
        }
        let left = self
            .grid
            .left
            .fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1 << 20)));
        self.budget = left.unwrap_or(0).min(1 << 20);
        if self.budget > 0 {
            return Ok(());
        }
        let program = self.grid.program;
        Err(Stop(Box::new(Failure::Limit {
            kernel: program.name.clone(),
            limit: self.grid.launch.instructions,
            line: program.places[pc as usize].line,
        })))
    }
}

type Executed = Result<(Event, u64), Stop>;

/// [`execute`], compiled for the CPU's vector instructions.
fn execute_best(at: At, fragment: &mut Fragment, limit: u32, quota: u64) -> Executed {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn execute_avx2(at: At, fragment: &mut Fragment, limit: u32, quota: u64) -> Executed {
            execute(at, fragment, limit, quota)
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
        {
            // SAFETY: the CPU has the features; each CPU with BMI2 and AVX2 has BMI1, LZCNT and POPCNT.
            return unsafe { execute_avx2(at, fragment, limit, quota) };
        }
    }
    execute(at, fragment, limit, quota)
}

#[inline(always)]
fn execute(mut at: At, fragment: &mut Fragment, limit: u32, quota: u64) -> Executed {
    let grid = at.worker.grid;
    let program = grid.program;
    let code = &program.code[..];
    let profile = grid.launch.profile;
    let (mut pc, mut limit, mut quota) = (fragment.pc as usize, limit as usize, quota);
    let mut active = fragment.mask;
    let (mut used, mut threads) = (0, 0u64);
    let event = loop {
        if pc >= limit || used >= quota {
            break Event::Stopped;
        }
        let inst = &code[pc];
        used += 1;
        let mut mask = active;
        if inst.guard != 0 {
            let p = at.warp.preds[(inst.guard >> 1) as usize - 1];
            mask &= if inst.guard & 1 != 0 { !p } else { p };
        }
        threads += u64::from(mask.count_ones());
        if profile {
            let line = &mut at.worker.counts.lines[pc];
            line.instructions += 1;
            line.thread_instructions += u64::from(mask.count_ones());
        }
        if mask == 0 {
            pc += 1;
            continue;
        }
        (at.mask, at.pc) = (mask, pc);
        match inst.code {
            Code::Branch => {
                let target = inst.d as usize;
                if mask != active {
                    at.worker.counts.report.divergent_branches += 1;
                    if profile {
                        at.worker.counts.lines[pc].divergent_branches += 1;
                    }
                    // The lanes at the earlier place go on.
                    let (next, rest, later) = if target > pc {
                        (pc + 1, mask, target)
                    } else {
                        (target, active & !mask, pc + 1)
                    };
                    active &= !rest;
                    at.warp
                        .fragments
                        .all
                        .push(fragment.part(later as u32, rest));
                    limit = limit.min(later);
                    quota = quota.min(used + super::fragments::FAIR);
                    pc = next;
                } else {
                    pc = target;
                }
                continue;
            }
            Code::Load => at.load(&program.accesses[inst.d as usize])?,
            Code::Store => at.store(&program.accesses[inst.d as usize])?,
            Code::Indexed | Code::Call | Code::Return => {
                fragment.mask = active;
                pc = at.jump(fragment, inst)?;
                active = fragment.mask;
                break Event::Stopped;
            }
            Code::Exit => {
                active &= !mask;
                at.end()?;
                if active == 0 {
                    break Event::Ended;
                }
            }
            Code::Extra => {
                let extra = &program.extras[inst.d as usize];
                if let Op::Scalar(function) = &extra.op {
                    scalar(at.warp, function, extra, mask);
                } else {
                    fragment.mask = active;
                    let flow = at.extra(fragment, inst)?;
                    active = fragment.mask;
                    match flow {
                        Flow::Next => {}
                        Flow::Again => break Event::Stopped,
                        Flow::Wait => {
                            pc += 1;
                            break Event::Stopped;
                        }
                        Flow::Yield => {
                            pc += 1;
                            break Event::Yield;
                        }
                    }
                }
            }
            _ => codes::execute(
                inst,
                mask,
                &mut at.warp.words,
                &mut at.warp.longs,
                &mut at.warp.preds,
            ),
        }
        pc += 1;
    };
    fragment.pc = pc as u32;
    fragment.mask = active;
    at.worker.counts.report.instructions += used;
    at.worker.counts.report.thread_instructions += threads;
    Ok((event, used))
}

impl At<'_, '_> {
    /// Lanes end.
    fn end(&mut self) -> Result<(), Stop> {
        self.common.barriers.end(self.warp.index, self.mask);
        self.warp.fragments.ended();
        (0..16).try_for_each(|id| self.worker.look_at_barrier(self.common, id))
    }

    /// Calls, returns and `brx.idx`: where the fragment goes on; lanes that go elsewhere become fragments of their own.
    fn jump(&mut self, fragment: &mut Fragment, inst: &Inst) -> Result<usize, Stop> {
        let (mask, pc) = (self.mask, self.pc);
        self.part(fragment);
        match inst.code {
            Code::Call => {
                fragment.frames.push(pc as u32 + 1);
                Ok(inst.d as usize)
            }
            Code::Return => Ok(fragment.frames.pop().unwrap_or(0) as usize),
            _ => {
                let table = &self.worker.grid.program.tables[inst.d as usize];
                let indices = self.warp.words[inst.a as usize];
                let lane = mask.trailing_zeros() as usize;
                let first = indices[lane];
                for (index, &target) in table
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| *index as u32 != first)
                {
                    let there = lanes(mask).filter(|&lane| indices[lane] as usize == index);
                    let there = there.fold(0, |all, lane| all | 1 << lane);
                    fragment.mask &= !there;
                    if there != 0 {
                        self.warp.fragments.all.push(fragment.part(target, there));
                    }
                }
                match table.get(first as usize) {
                    Some(&target) => Ok(target as usize),
                    None => {
                        let text =
                            format!("the index {first} of a branch, of {} targets", table.len());
                        self.fail(FindingKind::OutOfBounds, lane, text)
                    }
                }
            }
        }
    }
}
