//! Predicts the time of a pass: an event simulation of the two directions of the link and of the steps.

mod timeline;
mod work;

use crate::places::Places;
use crate::{Bound, Plan, Prediction, Program, Repeat, TransferKind};
use timeline::Timeline;
use work::{Entry, Work};

impl Plan {
    /// The prediction for this plan, which must be valid.
    pub(crate) fn simulate(&self, program: &Program, bound: Bound) -> Prediction {
        let work = self.work(program);
        let (mut in_bytes, mut out_bytes, mut in_seconds) = (0, 0, 0.0);
        for planned in &self.steps {
            for one in planned.before.iter().chain(&planned.after) {
                let bytes = program.buffers[one.buffer].bytes;
                match one.kind {
                    TransferKind::In | TransferKind::ReadInPlace => {
                        in_bytes += bytes;
                        in_seconds += self.link.in_seconds(bytes);
                    }
                    TransferKind::Out => out_bytes += bytes,
                    TransferKind::Claim | TransferKind::Drop => {}
                }
            }
        }
        let (seconds, stall_seconds) = Timeline::new(&work).run();
        Prediction {
            in_bytes,
            out_bytes,
            seconds,
            compute_seconds: work.compute.iter().sum(),
            in_seconds,
            out_seconds: work
                .outs
                .iter()
                .fold(0.0, |all, &(_, seconds)| all + seconds),
            stall_seconds,
            bound,
        }
    }

    fn work(&self, program: &Program) -> Work {
        let mut work = Work {
            compute: program
                .steps
                .iter()
                .map(|step| step.compute_seconds)
                .collect(),
            both_ways: self.link.both_ways,
            cyclic: program.repeat == Repeat::Cyclic,
            ..Work::default()
        };
        let waits = self.waits(program, work.cyclic);
        let mut waits = waits.iter();
        for (step, planned) in self.steps.iter().enumerate() {
            let (mut claim, mut in_place) = (None, 0.0);
            for one in &planned.before {
                let waits_for = waits.next().copied().flatten();
                let bytes = program.buffers[one.buffer].bytes;
                match one.kind {
                    TransferKind::In => work.ins.push(Entry {
                        seconds: self.link.in_seconds(bytes),
                        earliest: one.earliest,
                        waits_for,
                    }),
                    TransferKind::ReadInPlace => {
                        in_place += self.link.in_place_seconds(bytes);
                        claim = claim.max(waits_for);
                    }
                    _ => claim = claim.max(waits_for),
                }
            }
            for one in &planned.after {
                if one.kind == TransferKind::Out {
                    let bytes = program.buffers[one.buffer].bytes;
                    work.outs.push((step, self.link.out_seconds(bytes)));
                }
            }
            work.ins_until.push(work.ins.len());
            work.claims.push(claim);
            work.in_place.push(in_place);
        }
        work
    }

    /// For each entry of the lists `before`, in order: the last transfer from the device that it waits for, because it leaves the
    /// same place or writes the home that is read. Counted from the first one of this pass.
    fn waits(&self, program: &Program, cyclic: bool) -> Vec<Option<i64>> {
        let planned = self.steps.iter().flat_map(|step| &step.after);
        let outs = planned.filter(|one| one.kind == TransferKind::Out).count() as i64;
        let mut waits = Vec::new();
        if outs == 0 {
            return waits;
        }
        // The last transfer from the device of each buffer, and of each place by its first slot.
        let mut homes = vec![None; program.buffers.len()];
        let mut places = Places::new();
        for pass in 0..if cyclic { 2 } else { 1 } {
            waits.clear();
            let mut next_out = pass * outs;
            let relative = |out: Option<i64>| out.map(|out| out - pass * outs);
            for planned in &self.steps {
                for one in &planned.before {
                    let home: Option<i64> = homes[one.buffer];
                    let mut place = None;
                    places.take(one.slots, |out| place = place.max(Some(out)));
                    waits.push(relative(match one.kind {
                        TransferKind::Claim => place,
                        _ => home.max(place),
                    }));
                }
                for one in &planned.after {
                    if one.kind == TransferKind::Out {
                        homes[one.buffer] = Some(next_out);
                        next_out += 1;
                    } else if let Some(out) = homes[one.buffer] {
                        places.leave(one.slots, out);
                    }
                }
            }
        }
        waits
    }
}
