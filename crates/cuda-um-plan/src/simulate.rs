//! Predicts the time of a pass: an event simulation of the two directions of the link and of the steps.

mod timeline;

use crate::{Moment, Plan, Prediction, Program, Repeat, TransferKind};
use timeline::Timeline;

/// A transfer to the device, or the claim of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its time if the other direction is idle.
    pub seconds: f64,
    pub earliest: Option<Moment>,
    /// The transfer from the device, counted from the first one of this pass, that must be complete before.
    pub waits_for: Option<i64>,
}

/// What the simulation needs of a plan, in the order of execution.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub ins: Vec<Entry>,
    /// The step after which each transfer from the device begins, and its time.
    pub outs: Vec<(usize, f64)>,
    /// For each step: the number of transfers to the device that belong to the steps up to it.
    pub ins_until: Vec<usize>,
    /// For each step: the transfer from the device before which it cannot claim its places.
    pub claims: Vec<Option<i64>>,
    /// For each step: the time to read in place.
    pub in_place: Vec<f64>,
    pub compute: Vec<f64>,
    pub both_ways: f64,
    pub cyclic: bool,
}

impl Plan {
    /// The prediction for this plan, which must be valid.
    pub(crate) fn simulate(&self, program: &Program) -> Prediction {
        let work = self.work(program);
        let (mut in_bytes, mut out_bytes) = (0, 0);
        for planned in &self.steps {
            for one in planned.before.iter().chain(&planned.after) {
                let bytes = program.buffers[one.buffer].bytes;
                match one.kind {
                    TransferKind::In | TransferKind::ReadInPlace => in_bytes += bytes,
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
            stall_seconds,
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
                        in_place += self.link.in_seconds(bytes);
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
        let mut places = Places::default();
        for pass in 0..if cyclic { 2 } else { 1 } {
            waits.clear();
            let mut next_out = pass * outs;
            let relative = |out: Option<i64>| out.map(|out| out - pass * outs);
            for planned in &self.steps {
                for one in &planned.before {
                    let home: Option<i64> = homes[one.buffer];
                    let place = places.take(one.slots.first, one.slots.end());
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
                        places.leave(one.slots.first, one.slots.end(), out);
                    }
                }
            }
        }
        waits
    }
}

/// Free places with the last transfer that leaves them.
#[derive(Default)]
struct Places(std::collections::BTreeMap<u64, (u64, i64)>);

impl Places {
    fn leave(&mut self, first: u64, end: u64, out: i64) {
        self.0.insert(first, (end, out));
    }

    /// Removes the range, and returns its last transfer.
    fn take(&mut self, first: u64, end: u64) -> Option<i64> {
        let mut last = None;
        while let Some((&start, &(stop, out))) = self.0.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, (first, out));
            }
            if stop > end {
                self.0.insert(end, (stop, out));
            }
            last = last.max(Some(out));
        }
        last
    }
}
