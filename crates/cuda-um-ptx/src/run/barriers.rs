//! The barriers of a block.

use super::block::Common;
use super::exec::{Flow, Stop};
use super::fragments::{Fragment, State};
use super::{At, Worker};
use crate::launch::FindingKind;
use crate::program::{Op, Reduce};

impl At<'_, '_> {
    /// 9.7.13.1: sources are the barrier's number, how many threads (0: all), and the predicate of a reduction.
    pub fn barrier(
        &mut self,
        fragment: &mut Fragment,
        extra: u32,
        arrive: bool,
        reduce: Option<Reduce>,
    ) -> Result<Flow, Stop> {
        let of = &self.worker.grid.program.extras[extra as usize];
        let first = self.mask.trailing_zeros() as usize;
        let id = self.source(of, 0, first) as u8 & 15;
        let count = Some(self.source(of, 1, first) as u32).filter(|count| *count > 0);
        let values =
            of.s.get(2)
                .map_or(0, |slot| self.warp.preds[slot.index as usize]);
        let (warp, at) = (self.warp.index, self.pc as u32);
        let barriers = &mut self.common.barriers;
        let phase = barriers.phase(id);
        let fresh = barriers.arrive(id, warp, self.mask, count, at, values);
        if self.worker.checks.barriers {
            if !fresh {
                let text = format!("the thread has arrived at barrier {id} already");
                return self.fail(FindingKind::Barrier, first, text);
            }
            if self.common.barriers.elsewhere(id, warp, at) {
                let text = "lanes of the warp wait at another barrier: not all threads of the block reach the same one";
                return self.fail(FindingKind::Barrier, first, text);
            }
        }
        if let Some(checks) = &mut self.common.checks {
            checks.arrive(id, warp);
        }
        self.worker.look_at_barrier(self.common, id.into())?;
        self.part(fragment);
        if !arrive {
            let reduce = reduce.map(|_| extra);
            fragment.state = State::Barrier { id, phase, reduce };
        }
        Ok(Flow::Wait)
    }

    /// The result of a reduction by a barrier that is complete.
    pub fn finish_reduction(&mut self, id: u8, extra: u32) {
        let extra = &self.worker.grid.program.extras[extra as usize];
        if let Op::Barrier { reduce, .. } = extra.op
            && let Some(op) = reduce
        {
            let value = self.common.barriers.reduction(id, op);
            self.results(extra, self.mask, |_| value.into());
        }
    }
}

impl Worker<'_> {
    /// Lanes have arrived or ended: barrier `id` may be complete.
    pub fn look_at_barrier(&self, common: &mut Common, id: usize) -> Result<(), Stop> {
        let Some((warps, missing)) = common.barriers.complete(id) else {
            return Ok(());
        };
        if let Some(checks) = &mut common.checks {
            checks.barrier(id, &warps);
        }
        match missing.filter(|_| self.checks.barriers) {
            Some((thread, at)) => {
                let text =
                    "the other threads of the block wait at this barrier, but this one has ended";
                let (kind, at) = (FindingKind::Barrier, at as usize);
                Err(self.grid.finding(kind, at, common.id, thread, text).into())
            }
            None => Ok(()),
        }
    }
}

/// The warps that took part in a phase of a barrier, and the first thread that ended without reaching it, with where others waited.
type Completed = (Vec<usize>, Option<(u32, u32)>);

/// 9.7.13.1: the 16 barriers of a block.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    all: [Barrier; 16],
    /// Lanes of each warp that exist, and those that have not ended.
    lanes: Vec<u32>,
    alive: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
struct Barrier {
    phase: u32,
    arrived: Vec<u32>,
    /// Where each warp arrived first.
    places: Vec<u32>,
    any: bool,
    /// Threads that are expected, if the instruction said how many.
    count: Option<u32>,
    at: u32,
    popc: u32,
    reduced: u32,
    contributed: u32,
}

impl Barriers {
    pub fn new(threads: u32) -> Self {
        let lanes: Vec<u32> = (0..threads.div_ceil(32))
            .map(|warp| u32::MAX >> (32 - (threads - warp * 32).min(32)))
            .collect();
        Self {
            alive: lanes.clone(),
            lanes,
            ..Self::default()
        }
    }

    pub fn phase(&self, id: u8) -> u32 {
        self.all[usize::from(id)].phase
    }

    pub fn end(&mut self, warp: u32, mask: u32) {
        self.alive[warp as usize] &= !mask;
    }

    /// Lanes arrive. `false`: they have arrived in this phase already.
    pub fn arrive(
        &mut self,
        id: u8,
        warp: u32,
        mask: u32,
        count: Option<u32>,
        at: u32,
        values: u32,
    ) -> bool {
        let barrier = &mut self.all[usize::from(id)];
        if !barrier.any {
            *barrier = Barrier {
                phase: barrier.phase,
                arrived: vec![0; self.lanes.len()],
                places: vec![u32::MAX; self.lanes.len()],
                any: true,
                count,
                at,
                reduced: barrier.reduced,
                ..Barrier::default()
            };
        }
        let arrived = &mut barrier.arrived[warp as usize];
        let first = *arrived & mask == 0;
        if *arrived == 0 {
            barrier.places[warp as usize] = at;
        }
        *arrived |= mask;
        barrier.popc += (values & mask).count_ones();
        barrier.contributed += mask.count_ones();
        first
    }

    /// Whether lanes of the warp have arrived in this phase from another instruction.
    pub fn elsewhere(&self, id: u8, warp: u32, at: u32) -> bool {
        let barrier = &self.all[usize::from(id)];
        barrier.places[warp as usize] != at
    }

    /// Ends the phase of a barrier that has all its threads.
    fn complete(&mut self, id: usize) -> Option<Completed> {
        let barrier = &mut self.all[id];
        if !barrier.any {
            return None;
        }
        // A warp counts once all its lanes that are alive have arrived.
        let whole = |warp: usize| {
            barrier.arrived[warp] != 0 && self.alive[warp] & !barrier.arrived[warp] == 0
        };
        let warps = 0..self.lanes.len();
        let mut all = warps.clone();
        let enough = match barrier.count {
            Some(count) => all.filter(|&warp| whole(warp)).count() as u32 * 32 >= count,
            None => all.all(|warp| self.alive[warp] & !barrier.arrived[warp] == 0),
        };
        if !enough {
            return None;
        }
        let missing = warps.clone().find_map(|warp| {
            let missing = self.lanes[warp] & !barrier.arrived[warp];
            (missing != 0).then(|| (warp as u32 * 32 + missing.trailing_zeros(), barrier.at))
        });
        let missing = missing.filter(|_| barrier.count.is_none());
        let took_part = warps.filter(|&warp| barrier.arrived[warp] != 0).collect();
        barrier.reduced = barrier.popc;
        barrier.phase += 1;
        barrier.any = false;
        Some((took_part, missing))
    }

    /// The result of the last reduction, for `contributed` threads.
    pub fn reduction(&self, id: u8, op: Reduce) -> u32 {
        let barrier = &self.all[usize::from(id)];
        op(barrier.reduced, barrier.contributed)
    }
}
