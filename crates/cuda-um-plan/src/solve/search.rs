//! Tries candidates, and changes the best one.

use super::candidate::{CANDIDATES, Candidate, Keep, MANY_USES};
use super::found::Found;
use super::uses::{InPlace, Uses};
use crate::{Bound, Plan, Program};
use std::io;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Changes of a candidate, at most. Each makes the pass faster by this factor: less is not worth a plan that is tuned to the model.
const MOST_CHANGES: usize = 6;
const FASTER: f64 = 0.99;

pub(super) struct Search<'a> {
    program: &'a Program,
    uses: &'a Uses,
    /// The plan without transfers.
    empty: &'a Plan,
    bound: Bound,
    best: Option<Found>,
    /// The best plan of a candidate that can be changed.
    start: Option<(Found, Candidate)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(program: &'a Program, uses: &'a Uses, empty: &'a Plan) -> Self {
        Self {
            program,
            uses,
            bound: program.bound(empty.budget, &empty.link),
            empty,
            best: None,
            start: None,
        }
    }

    /// The best plan.
    pub(super) fn run(mut self) -> Found {
        self.candidates();
        if let Some((plan, one)) = self.start.take() {
            self.change(plan, one);
        }
        let mut best = self.best.take().unwrap_or_default();
        best.prediction.bound = self.bound;
        best
    }

    fn candidates(&mut self) {
        let writes = self.uses.buffers.iter().any(|facts| facts.writes);
        let wanted = self.wanted(writes);
        // With writes, the first candidate is seldom good enough.
        let made = match writes && self.is_large() {
            true => self.plan_all(&wanted),
            false => Vec::new(),
        };
        let mut made = made.into_iter();
        for one in wanted {
            let plan = made.next().unwrap_or_else(|| self.plan(one));
            if self.is_done_with(plan, one) {
                return;
            }
        }
    }

    /// The candidates to try.
    fn wanted(&self, writes: bool) -> Vec<Candidate> {
        let buffers = &self.uses.buffers;
        let is_wanted =
            |one: &Candidate| (one.out_weight == 1.0 || writes) && (one.quick || !self.is_large());
        let mut wanted = Vec::new();
        for in_place in [InPlace::Nothing, InPlace::Free, InPlace::All] {
            if in_place == InPlace::Nothing || buffers.iter().any(|facts| in_place.applies(facts)) {
                let candidates = CANDIDATES.into_iter().filter(is_wanted);
                wanted.extend(candidates.map(|one| Candidate { in_place, ..one }));
            }
        }
        wanted
    }

    fn plan(&self, one: Candidate) -> Found {
        self.program.candidate(self.uses, self.empty, one)
    }

    /// The plans of some candidates at the same time: programs with many uses take milliseconds for each.
    fn plan_all(&self, candidates: &[Candidate]) -> Vec<Found> {
        thread::scope(|scope| {
            let start = |&one| {
                let work = move || self.plan(one);
                (one, thread::Builder::new().spawn_scoped(scope, work))
            };
            let started: Vec<_> = candidates.iter().map(start).collect();
            let finish = |(one, thread): (Candidate, io::Result<ScopedJoinHandle<'_, Found>>)| {
                // Without another thread, this one does the work.
                let Ok(thread) = thread else {
                    return self.plan(one);
                };
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            started.into_iter().map(finish).collect()
        })
    }

    /// Takes the plan of a candidate, and returns whether it is good enough.
    fn is_done_with(&mut self, mut plan: Found, one: Candidate) -> bool {
        plan.prediction.bound = self.bound;
        let close = self.program.is_close(&plan.prediction);
        let done = close && (self.is_large() || plan.prediction.moves_little());
        let start = self.start.as_ref().map(|(plan, _)| plan);
        if one.keep == Keep::Best && !self.is_large() && plan.is_better_than(start) {
            self.start = Some((plan.clone(), one));
        }
        self.take(plan);
        done
    }

    /// Changes one choice of a candidate as long as a change makes its plan faster.
    fn change(&mut self, mut plan: Found, mut one: Candidate) {
        let is_close = |plan: &Option<Found>| {
            let plan = plan.as_ref();
            plan.is_some_and(|plan| self.program.is_close(&plan.prediction))
        };
        if is_close(&self.best) {
            return;
        }
        for _ in 0..MOST_CHANGES {
            let mut changed = None;
            for other in one.neighbours(self.uses.cyclic) {
                let found = self.plan(other);
                if found.prediction.seconds < FASTER * plan.prediction.seconds {
                    (plan, changed) = (found, Some(other));
                }
            }
            match changed {
                Some(other) => one = other,
                None => break,
            }
        }
        self.take(plan);
    }

    fn take(&mut self, plan: Found) {
        if plan.is_better_than(self.best.as_ref()) {
            self.best = Some(plan);
        }
    }

    fn is_large(&self) -> bool {
        self.uses.all.len() > MANY_USES
    }
}
