//! The events of several passes.

use super::thread::Duty;
use super::work::Work;
use crate::Moment;

/// Passes until the time of a pass is that of the steady state.
const MOST_PASSES: usize = 12;
/// Times that differ by less are the same.
const SAME: f64 = 1e-9;

/// What is complete, from the first pass on.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    all: usize,
    /// Complete passes, and entries of the next one.
    passes: usize,
    index: usize,
}

impl Done {
    /// One more of a pass with this many.
    fn add(&mut self, length: usize) {
        self.all += 1;
        self.index += 1;
        if self.index == length {
            (self.passes, self.index) = (self.passes + 1, 0);
        }
    }
}

/// The state between two events. Times are seconds, and transfers have the time that is left if the other direction is idle.
pub(crate) struct Timeline<'a> {
    work: &'a Work,
    now: f64,
    /// Steps, transfers to the device and transfers from it.
    steps: Done,
    ins: Done,
    outs: Done,
    /// What the thread did with files.
    thread: Done,
    /// The time that is left to the running step, to the transfers, and to what the running step reads in place.
    step: Option<f64>,
    to_device: Option<f64>,
    from_device: Option<f64>,
    in_place: Option<f64>,
    /// The time that is left to the thread.
    reads: Option<f64>,
    step_began: f64,
    step_ended: f64,
    stalls: Vec<f64>,
    limit: usize,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(work: &'a Work) -> Self {
        Self {
            work,
            now: 0.0,
            steps: Done::default(),
            ins: Done::default(),
            outs: Done::default(),
            thread: Done::default(),
            step: None,
            to_device: None,
            from_device: None,
            in_place: None,
            reads: None,
            step_began: 0.0,
            step_ended: 0.0,
            stalls: vec![0.0; work.compute.len()],
            limit: if work.cyclic { MOST_PASSES } else { 1 },
        }
    }

    /// The time of a pass, and the stalls of its steps.
    pub(crate) fn run(mut self) -> (f64, Vec<f64>) {
        if self.work.compute.is_empty() {
            return (0.0, Vec::new());
        }
        let (mut ended, mut before) = (0.0, f64::NAN);
        for pass in 1..=self.limit {
            while self.steps.passes < pass && self.event() {}
            let seconds = self.step_ended - ended;
            ended = self.step_ended;
            let steady = (seconds - before).abs() <= SAME * seconds;
            before = seconds;
            if steady && pass > 2 {
                break;
            }
        }
        if !self.work.cyclic {
            // The pass ends when all results are in their homes.
            while self.event() {}
            before = self.now;
        }
        (before, self.stalls)
    }

    /// Begins what can begin, and goes on to the next end. Returns whether there was one.
    fn event(&mut self) -> bool {
        self.begin();
        let both =
            self.from_device.is_some() && (self.to_device.is_some() || self.reads_in_place());
        let speed = if both { self.work.both_ways } else { 1.0 };
        let link_in = if self.to_device.is_some() {
            self.to_device
        } else {
            self.in_place.filter(|_| self.step.is_some())
        };
        let transfers = [link_in, self.from_device].into_iter().flatten();
        let waits = transfers
            .map(|left| left / speed)
            .chain(self.step.filter(|&left| left > 0.0))
            .chain(self.reads);
        let Some(wait) = waits.reduce(f64::min) else {
            // A step without computation may have ended at once.
            return self.end(0.0, speed);
        };
        self.now += wait;
        self.end(wait, speed)
    }

    fn reads_in_place(&self) -> bool {
        self.to_device.is_none() && self.in_place.is_some()
    }

    fn begin(&mut self) {
        if self.step.is_none() && self.steps.passes < self.limit && self.step_is_ready() {
            let index = self.steps.index;
            self.step = Some(self.work.compute[index]);
            self.in_place = Some(self.work.in_place[index]).filter(|&left| left > 0.0);
            self.step_began = self.now;
        }
        if self.to_device.is_none() && self.in_place.is_none() {
            self.to_device = self.next_in();
        }
        if self.from_device.is_none() {
            self.from_device = self.next_out();
        }
        if self.reads.is_none() {
            self.reads = self.next_duty();
        }
    }

    /// The time of the thread's next duty, if it can begin.
    fn next_duty(&self) -> Option<f64> {
        let pass = self.thread.passes;
        let duty = self.work.thread.get(self.thread.index)?;
        if pass == self.limit {
            return None;
        }
        match *duty {
            Duty::Out(out) => self.out_is_done(pass, Some(out)).then_some(0.0),
            Duty::In(read) => {
                let first = (pass * self.work.ins.len()) as i64;
                let arrived = |after: i64| first + after < self.ins.all as i64;
                let has_place = |place: Moment| self.has_ended(pass, place);
                let is_free = read.after.is_none_or(arrived) && read.place.is_none_or(has_place);
                is_free.then_some(read.seconds)
            }
        }
    }

    fn out_is_done(&self, pass: usize, out: Option<i64>) -> bool {
        let first = (pass * self.work.outs.len()) as i64;
        out.is_none_or(|out| first + out < self.outs.all as i64)
    }

    fn step_is_ready(&self) -> bool {
        let (pass, step) = (self.steps.passes, self.steps.index);
        let ins = pass * self.work.ins.len() + self.work.ins_until[step];
        let until = self.work.thread_until.get(step);
        let duties = until.map_or(0, |until| pass * self.work.thread.len() + until);
        self.thread.all >= duties
            && self.ins.all >= ins
            && self.out_is_done(pass, self.work.claims[step])
    }

    fn next_in(&self) -> Option<f64> {
        let pass = self.ins.passes;
        let entry = self.work.ins.get(self.ins.index)?;
        if pass == self.limit {
            return None;
        }
        let duty = self.work.thread_of_ins.get(self.ins.index).copied();
        let first = (pass * self.work.thread.len()) as i64;
        let is_read = |duty: i64| first + duty < self.thread.all as i64;
        let ready = entry
            .earliest
            .is_none_or(|earliest| self.has_ended(pass, earliest))
            && duty.flatten().is_none_or(is_read);
        (ready && self.out_is_done(pass, entry.waits_for)).then_some(entry.seconds)
    }

    fn next_out(&self) -> Option<f64> {
        let pass = self.outs.passes;
        let &(step, seconds) = self.work.outs.get(self.outs.index)?;
        if pass == self.limit {
            return None;
        }
        self.has_ended(pass, Moment { pass: 0, step })
            .then_some(seconds)
    }

    fn has_ended(&self, pass: usize, at: Moment) -> bool {
        let steps = self.work.compute.len();
        let end = (pass * steps + at.step + 1) as i64 + i64::from(at.pass) * steps as i64;
        self.steps.all as i64 >= end
    }

    /// Advances all that runs, and ends what has no time left. Returns whether anything ended.
    fn end(&mut self, wait: f64, speed: f64) -> bool {
        let passed = wait * speed;
        let mut ended = false;
        let mut advance = |left: &mut Option<f64>, by: f64| {
            if let Some(seconds) = left {
                *seconds -= by;
                if *seconds <= 1e-15 {
                    *left = None;
                    ended = true;
                    return true;
                }
            }
            false
        };
        if self.to_device.is_some() {
            if advance(&mut self.to_device, passed) {
                self.ins.add(self.work.ins.len());
            }
        } else {
            advance(&mut self.in_place, passed);
        }
        if advance(&mut self.reads, wait) {
            self.thread.add(self.work.thread.len());
        }
        if advance(&mut self.from_device, passed) {
            self.outs.add(self.work.outs.len());
        }
        if let Some(left) = &mut self.step {
            *left = (*left - wait).max(0.0);
            if *left <= 1e-15 && self.in_place.is_none() {
                self.end_step();
                ended = true;
            } else if wait > 0.0 {
                ended = true;
            }
        }
        ended
    }

    fn end_step(&mut self) {
        let index = self.steps.index;
        let stall = self.now - self.step_ended - self.work.compute[index];
        self.stalls[index] = stall.max(0.0);
        self.step = None;
        self.step_ended = self.now;
        self.steps.add(self.work.compute.len());
    }
}
