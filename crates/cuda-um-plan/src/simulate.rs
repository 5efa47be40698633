//! Predicts the time of a pass: an event simulation of the two directions of the link and of the steps.

mod thread;
mod timeline;
mod work;

use crate::places::Places;
use crate::transfers::Transfers;
use crate::{Bound, Link, Moment, Prediction, Program, Repeat, TransferKind};
use timeline::Timeline;
use work::{Entry, Work};

impl Transfers {
    /// The prediction for these transfers, which must be those of a valid plan, without a bound. Sets the deadlines of the transfers from the device.
    pub(crate) fn simulate(&mut self, program: &Program, link: &Link) -> Prediction {
        let waits = self.waits(program);
        let work = self.work(program, link, &waits);
        let (mut in_bytes, mut out_bytes, mut in_seconds) = (0, 0, 0.0);
        for one in self.before.in_order().chain(self.after.in_order()) {
            let spec = &program.buffers[one.buffer];
            let bytes = spec.bytes;
            match one.kind {
                TransferKind::In | TransferKind::ReadInPlace => {
                    in_bytes += bytes;
                    in_seconds += link.of(spec).in_seconds(bytes);
                }
                TransferKind::Out => out_bytes += bytes,
                TransferKind::Claim | TransferKind::Drop => {}
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
            bound: Bound::default(),
        }
    }

    fn work(&self, program: &Program, link: &Link, waits: &[Option<i64>]) -> Work {
        let mut work = Work {
            compute: program
                .steps
                .iter()
                .map(|step| step.compute_seconds)
                .collect(),
            ins: Vec::with_capacity(self.before.all.len()),
            outs: Vec::with_capacity(self.after.all.len()),
            ins_until: Vec::with_capacity(self.steps()),
            claims: Vec::with_capacity(self.steps()),
            in_place: Vec::with_capacity(self.steps()),
            thread: Vec::new(),
            thread_until: Vec::new(),
            thread_of_ins: Vec::new(),
            both_ways: link.both_ways,
            cyclic: program.repeat == Repeat::Cyclic,
        };
        let mut waits = waits.iter();
        for step in 0..self.steps() {
            let (mut claim, mut in_place) = (None, 0.0);
            for one in self.before.of_step(step) {
                let waits_for = waits.next().copied().flatten();
                let spec = &program.buffers[one.buffer];
                let bytes = spec.bytes;
                match one.kind {
                    TransferKind::In => work.ins.push(Entry {
                        seconds: link.of(spec).in_seconds(bytes),
                        earliest: one.earliest,
                        waits_for,
                    }),
                    TransferKind::ReadInPlace => {
                        in_place += link.in_place_seconds(bytes);
                        claim = claim.max(waits_for);
                    }
                    _ => claim = claim.max(waits_for),
                }
            }
            for one in self.after.of_step(step) {
                if one.kind == TransferKind::Out {
                    let spec = &program.buffers[one.buffer];
                    let seconds = link.of(spec).out_seconds(spec.bytes);
                    work.outs.push((step, seconds));
                }
            }
            work.ins_until.push(work.ins.len());
            work.claims.push(claim);
            work.in_place.push(in_place);
        }
        work.add_files(self, program, link);
        work
    }

    /// For each entry of the lists `before`, in order: the last transfer from the device that it waits for, because it leaves the
    /// same place or writes the home that is read. Counted from the first one of this pass. The deadline of a transfer from the
    /// device is the first step with such an entry.
    fn waits(&mut self, program: &Program) -> Vec<Option<i64>> {
        let outs = self.after.outs();
        if outs.is_empty() {
            return Vec::new();
        }
        let mut waits = Vec::with_capacity(self.before.all.len());
        // The last transfer from the device of each buffer until the home is read, and until the buffer leaves its place. They are
        // counted from the first pass on.
        let mut homes: Vec<Option<usize>> = vec![None; program.buffers.len()];
        let mut leaving = homes.clone();
        let mut places = Places::new();
        let passes = match program.repeat {
            Repeat::Once => 1,
            Repeat::Cyclic => 2,
        };
        for pass in 0..passes {
            waits.clear();
            let first = pass * outs.len();
            let mut next = first;
            for step in 0..self.steps() {
                for one in self.before.of_step(step) {
                    let mut last = None;
                    let mut wait = |out: usize| {
                        last = last.max(Some(out));
                        let began = out / outs.len();
                        let pass = (pass - began) as i8;
                        let deadline = &mut self.after.all[outs[out % outs.len()]].deadline;
                        deadline.get_or_insert(Moment { pass, step });
                    };
                    if one.kind != TransferKind::Claim
                        && let Some(out) = homes[one.buffer].take()
                    {
                        wait(out);
                    }
                    places.take(one.slots, wait);
                    waits.push(last.map(|out| out as i64 - first as i64));
                }
                for one in self.after.of_step(step) {
                    if one.kind == TransferKind::Out {
                        homes[one.buffer] = Some(next);
                        leaving[one.buffer] = Some(next);
                        next += 1;
                    } else if let Some(out) = leaving[one.buffer].take() {
                        places.leave(one.slots, out);
                    }
                }
            }
        }
        waits
    }
}
