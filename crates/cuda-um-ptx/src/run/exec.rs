//! The loop over instructions: one dispatch a warp instruction, then a loop over lanes that becomes vector instructions.
//!
//! Lanes are taken eight at a time, all sources before the result is written, so that a result may be one of the sources.

#![expect(
    unsafe_code,
    reason = "the loop is compiled for CPUs with AVX2 and FMA, too"
)]

use super::block::{Common, Warp};
use super::collective::scalar;
use super::fragments::{Fragment, State};
use super::memory::lanes;
use super::{At, Worker};
use crate::launch::{Failure, Finding, FindingKind};
use crate::math::{Mode, Type};
use crate::math::{convert, float};
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
            if let State::Barrier {
                id,
                reduce: Some(extra),
                ..
            } = fragment.state
            {
                let (mask, pc) = (fragment.mask, fragment.pc as usize);
                At {
                    worker: self,
                    warp,
                    common,
                    mask,
                    pc,
                }
                .finish_reduction(id, extra, mask);
            }
            fragment.state = State::Ready;
            self.refill(fragment.pc)?;
            let quota = quota.min(left).min(self.budget);
            let (event, used) = execute_best(self, warp, common, &mut fragment, limit, quota)?;
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
fn execute_best(
    worker: &mut Worker,
    warp: &mut Warp,
    common: &mut Common,
    fragment: &mut Fragment,
    limit: u32,
    quota: u64,
) -> Executed {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn execute_avx2(
            worker: &mut Worker,
            warp: &mut Warp,
            common: &mut Common,
            fragment: &mut Fragment,
            limit: u32,
            quota: u64,
        ) -> Executed {
            execute(worker, warp, common, fragment, limit, quota)
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
        {
            // SAFETY: the CPU has the features; each CPU with BMI2 and AVX2 has BMI1, LZCNT and POPCNT.
            return unsafe { execute_avx2(worker, warp, common, fragment, limit, quota) };
        }
    }
    execute(worker, warp, common, fragment, limit, quota)
}

#[inline(always)]
fn eight<T: Copy>(lanes: &[T; 32], part: usize) -> [T; 8] {
    let (parts, _) = lanes.as_chunks::<8>();
    parts[part]
}

/// Writes the lanes of `mask`.
#[inline(always)]
fn put<T: Copy>(d: &mut [T; 32], part: usize, values: [T; 8], mask: u32) {
    let (parts, _) = d.as_chunks_mut::<8>();
    let d = &mut parts[part];
    if mask == u32::MAX {
        *d = values;
    } else {
        for i in 0..8 {
            let bit = 1 << (part * 8 + i);
            d[i] = if mask & bit != 0 { values[i] } else { d[i] };
        }
    }
}

/// `d = value` for lanes `a`, `b` and `c` of the files that are named; closures would not be inlined.
macro_rules! lanes {
    ($d:expr, $inst:expr, $mask:expr, $value:expr, $($lane:ident $file:expr, $slot:ident);+) => {
        for part in 0..4 {
            $(let $lane = eight(&$file[$inst.$slot as usize], part);)+
            let mut values = eight(&$d[$inst.d as usize], part);
            for i in 0..8 {
                $(let $lane = $lane[i];)+
                values[i] = $value;
            }
            put(&mut $d[$inst.d as usize], part, values, $mask);
        }
    };
}

macro_rules! one {
    ($file:expr, $inst:expr, $mask:expr, |$a:ident| $value:expr) => { lanes!($file, $inst, $mask, $value, $a $file, a) };
}

macro_rules! two {
    ($file:expr, $inst:expr, $mask:expr, |$a:ident, $b:ident| $value:expr) => { lanes!($file, $inst, $mask, $value, $a $file, a; $b $file, b) };
}

macro_rules! three {
    ($file:expr, $inst:expr, $mask:expr, |$a:ident, $b:ident, $c:ident| $value:expr) => {
        lanes!($file, $inst, $mask, $value, $a $file, a; $b $file, b; $c $file, c)
    };
}

macro_rules! float {
    ($file:expr, $inst:expr, $mask:expr, $type:ty, |$($lane:ident $slot:ident),+| $value:expr) => {
        lanes!($file, $inst, $mask, { $(let $lane = <$type>::from_bits($lane);)+ ($value).to_bits() }, $($lane $file, $slot);+)
    };
}

/// One of two registers for each lane, by a predicate.
macro_rules! select {
    ($file:ident, $preds:ident, $inst:ident, $mask:ident) => {{
        let mut value = $file[$inst.b as usize];
        let chooser = $preds[$inst.c as usize];
        for part in 0..4 {
            put(
                &mut value,
                part,
                eight(&$file[$inst.a as usize], part),
                chooser,
            );
        }
        for part in 0..4 {
            put(
                &mut $file[$inst.d as usize],
                part,
                eight(&value, part),
                $mask,
            );
        }
    }};
}

/// A comparison: a bit for each lane; `c` negates it.
macro_rules! test {
    ($file:expr, $preds:expr, $inst:expr, $mask:expr, |$a:ident, $b:ident| $value:expr) => {{
        let mut bits = 0;
        for part in 0..4 {
            let (a, b) = (
                eight(&$file[$inst.a as usize], part),
                eight(&$file[$inst.b as usize], part),
            );
            let mut byte = 0;
            for i in 0..8 {
                let ($a, $b) = (a[i], b[i]);
                byte |= u32::from($value) << i;
            }
            bits |= byte << (8 * part);
        }
        let d = &mut $preds[$inst.d as usize];
        *d = *d & !$mask | (bits ^ $inst.c.wrapping_neg()) & $mask;
    }};
}

#[inline(always)]
fn execute(
    worker: &mut Worker,
    warp: &mut Warp,
    common: &mut Common,
    fragment: &mut Fragment,
    limit: u32,
    quota: u64,
) -> Executed {
    const MODE: Mode = Mode::PLAIN;
    macro_rules! at {
        ($mask:expr, $pc:expr) => {
            At {
                worker: &mut *worker,
                warp: &mut *warp,
                common: &mut *common,
                mask: $mask,
                pc: $pc,
            }
        };
    }
    let grid = worker.grid;
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
            let p = warp.preds[(inst.guard >> 1) as usize - 1];
            mask &= if inst.guard & 1 != 0 { !p } else { p };
        }
        threads += u64::from(mask.count_ones());
        if profile {
            let line = &mut worker.counts.lines[pc];
            line.instructions += 1;
            line.thread_instructions += u64::from(mask.count_ones());
        }
        if mask == 0 {
            pc += 1;
            continue;
        }
        let (words, longs, preds) = (
            &mut warp.words[..],
            &mut warp.longs[..],
            &mut warp.preds[..],
        );
        match inst.code {
            Code::MovW => one!(words, inst, mask, |a| a),
            Code::MovL => one!(longs, inst, mask, |a| a),
            Code::AddW => two!(words, inst, mask, |a, b| a.wrapping_add(b)),
            Code::SubW => two!(words, inst, mask, |a, b| a.wrapping_sub(b)),
            Code::MulW => two!(words, inst, mask, |a, b| a.wrapping_mul(b)),
            Code::MadW => three!(words, inst, mask, |a, b, c| a
                .wrapping_mul(b)
                .wrapping_add(c)),
            Code::AndW => two!(words, inst, mask, |a, b| a & b),
            Code::OrW => two!(words, inst, mask, |a, b| a | b),
            Code::XorW => two!(words, inst, mask, |a, b| a ^ b),
            Code::NotW => one!(words, inst, mask, |a| !a),
            Code::ShlW => two!(words, inst, mask, |a, b| if b < 32 {
                a << (b & 31)
            } else {
                0
            }),
            Code::ShrW => two!(words, inst, mask, |a, b| if b < 32 {
                a >> (b & 31)
            } else {
                0
            }),
            Code::ShrS => two!(
                words,
                inst,
                mask,
                |a, b| (a as i32 >> (if b < 31 { b } else { 31 })) as u32
            ),
            Code::MinW => two!(words, inst, mask, |a, b| if a < b { a } else { b }),
            Code::MaxW => two!(words, inst, mask, |a, b| if a > b { a } else { b }),
            Code::MinS => two!(words, inst, mask, |a, b| if (a as i32) < b as i32 {
                a
            } else {
                b
            }),
            Code::MaxS => two!(words, inst, mask, |a, b| if a as i32 > b as i32 {
                a
            } else {
                b
            }),
            Code::AddL => two!(longs, inst, mask, |a, b| a.wrapping_add(b)),
            Code::SubL => two!(longs, inst, mask, |a, b| a.wrapping_sub(b)),
            Code::MulL => two!(longs, inst, mask, |a, b| a.wrapping_mul(b)),
            Code::MadL => three!(longs, inst, mask, |a, b, c| a
                .wrapping_mul(b)
                .wrapping_add(c)),
            Code::AndL => two!(longs, inst, mask, |a, b| a & b),
            Code::OrL => two!(longs, inst, mask, |a, b| a | b),
            Code::XorL => two!(longs, inst, mask, |a, b| a ^ b),
            Code::NotL => one!(longs, inst, mask, |a| !a),
            Code::ShlL => {
                lanes!(longs, inst, mask, if b < 64 { a << (b & 63) } else { 0 }, a longs, a; b words, b)
            }
            Code::ShrL => {
                lanes!(longs, inst, mask, if b < 64 { a >> (b & 63) } else { 0 }, a longs, a; b words, b)
            }
            Code::MinL => two!(longs, inst, mask, |a, b| if a < b { a } else { b }),
            Code::MaxL => two!(longs, inst, mask, |a, b| if a > b { a } else { b }),
            Code::WideW => {
                lanes!(longs, inst, mask, u64::from(a) * u64::from(b), a words, a; b words, b)
            }
            Code::WideS => {
                lanes!(longs, inst, mask, (i64::from(a as i32) * i64::from(b as i32)) as u64, a words, a; b words, b)
            }
            Code::WideMadW => {
                lanes!(longs, inst, mask, (u64::from(a) * u64::from(b)).wrapping_add(c), a words, a; b words, b; c longs, c)
            }
            Code::WideMadS => {
                lanes!(longs, inst, mask, ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c), a words, a; b words, b; c longs, c)
            }
            Code::Extend => lanes!(longs, inst, mask, u64::from(a), a words, a),
            Code::ExtendS => lanes!(longs, inst, mask, i64::from(a as i32) as u64, a words, a),
            Code::Low => lanes!(words, inst, mask, a as u32, a longs, a),
            Code::High => lanes!(words, inst, mask, (a >> 32) as u32, a longs, a),
            Code::Join => {
                lanes!(longs, inst, mask, u64::from(b) << 32 | u64::from(a), a words, a; b words, b)
            }
            Code::AddF => float!(words, inst, mask, f32, |a a, b b| float::add(a, b, MODE)),
            Code::SubF => float!(words, inst, mask, f32, |a a, b b| float::sub(a, b, MODE)),
            Code::MulF => float!(words, inst, mask, f32, |a a, b b| float::mul(a, b, MODE)),
            Code::FmaF => float!(words, inst, mask, f32, |a a, b b, c c| float::fma(a, b, c, MODE)),
            Code::MinF => float!(words, inst, mask, f32, |a a, b b| float::min(a, b, MODE)),
            Code::MaxF => float!(words, inst, mask, f32, |a a, b b| float::max(a, b, MODE)),
            Code::NegF => one!(words, inst, mask, |a| a ^ 1 << 31),
            Code::AbsF => one!(words, inst, mask, |a| a & !(1 << 31)),
            Code::AddD => float!(longs, inst, mask, f64, |a a, b b| float::add(a, b, MODE)),
            Code::SubD => float!(longs, inst, mask, f64, |a a, b b| float::sub(a, b, MODE)),
            Code::MulD => float!(longs, inst, mask, f64, |a a, b b| float::mul(a, b, MODE)),
            Code::FmaD => float!(longs, inst, mask, f64, |a a, b b, c c| float::fma(a, b, c, MODE)),
            Code::FloatS => one!(words, inst, mask, |a| (a as i32 as f32).to_bits()),
            Code::FloatW => one!(words, inst, mask, |a| (a as f32).to_bits()),
            Code::HalfF => one!(words, inst, mask, |a| convert::cvt(
                a.into(),
                Type::F16,
                Type::F32,
                MODE
            ) as u32),
            Code::EqW => test!(words, preds, inst, mask, |a, b| a == b),
            Code::LtW => test!(words, preds, inst, mask, |a, b| a < b),
            Code::LeW => test!(words, preds, inst, mask, |a, b| a <= b),
            Code::LtS => test!(words, preds, inst, mask, |a, b| (a as i32) < b as i32),
            Code::LeS => test!(words, preds, inst, mask, |a, b| a as i32 <= b as i32),
            Code::EqL => test!(longs, preds, inst, mask, |a, b| a == b),
            Code::LtL => test!(longs, preds, inst, mask, |a, b| a < b),
            Code::LeL => test!(longs, preds, inst, mask, |a, b| a <= b),
            Code::LtLS => test!(longs, preds, inst, mask, |a, b| (a as i64) < b as i64),
            Code::LeLS => test!(longs, preds, inst, mask, |a, b| a as i64 <= b as i64),
            Code::EqF => test!(words, preds, inst, mask, |a, b| f32::from_bits(a)
                == f32::from_bits(b)),
            Code::LtF => test!(words, preds, inst, mask, |a, b| f32::from_bits(a)
                < f32::from_bits(b)),
            Code::LeF => test!(words, preds, inst, mask, |a, b| f32::from_bits(a)
                <= f32::from_bits(b)),
            Code::EqD => test!(longs, preds, inst, mask, |a, b| f64::from_bits(a)
                == f64::from_bits(b)),
            Code::LtD => test!(longs, preds, inst, mask, |a, b| f64::from_bits(a)
                < f64::from_bits(b)),
            Code::LeD => test!(longs, preds, inst, mask, |a, b| f64::from_bits(a)
                <= f64::from_bits(b)),
            Code::SelW => select!(words, preds, inst, mask),
            Code::SelL => select!(longs, preds, inst, mask),
            Code::Logic => {
                let (a, b) = (preds[inst.a as usize], preds[inst.b as usize]);
                let term = |bit: u32, value: u32| if inst.c & bit != 0 { value } else { 0 };
                let value = term(8, a & b) | term(4, a & !b) | term(2, !a & b) | term(1, !a & !b);
                let d = &mut preds[inst.d as usize];
                *d = *d & !mask | value & mask;
            }
            Code::Branch => {
                let target = inst.d as usize;
                if mask != active {
                    worker.counts.report.divergent_branches += 1;
                    if profile {
                        worker.counts.lines[pc].divergent_branches += 1;
                    }
                    // The lanes at the earlier place go on.
                    let (next, rest, later) = if target > pc {
                        (pc + 1, mask, target)
                    } else {
                        (target, active & !mask, pc + 1)
                    };
                    active &= !rest;
                    warp.fragments.all.push(fragment.part(later as u32, rest));
                    limit = limit.min(later);
                    quota = quota.min(used + super::fragments::FAIR);
                    pc = next;
                } else {
                    pc = target;
                }
                continue;
            }
            Code::Load => at!(mask, pc).load(&program.accesses[inst.d as usize])?,
            Code::Store => at!(mask, pc).store(&program.accesses[inst.d as usize])?,
            Code::Indexed | Code::Call | Code::Return => {
                fragment.mask = active;
                pc = at!(mask, pc).jump(fragment, inst)?;
                active = fragment.mask;
                break Event::Stopped;
            }
            Code::Exit => {
                active &= !mask;
                at!(mask, pc).end()?;
                if active == 0 {
                    break Event::Ended;
                }
            }
            Code::Extra => {
                let extra = &program.extras[inst.d as usize];
                if let Op::Scalar(function) = &extra.op {
                    scalar(warp, function, extra, mask);
                } else {
                    fragment.mask = active;
                    let flow = at!(mask, pc).extra(fragment, inst)?;
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
        }
        pc += 1;
    };
    fragment.pc = pc as u32;
    fragment.mask = active;
    worker.counts.report.instructions += used;
    worker.counts.report.thread_instructions += threads;
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
