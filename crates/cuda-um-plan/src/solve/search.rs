//! Tries candidates, and changes the best one.

use super::candidate::{CANDIDATES, Candidate, Keep, MANY_USES};
use super::uses::{InPlace, Uses};
use crate::{Bound, Plan, Program};

/// Changes of a candidate, at most. Each makes the pass faster by this factor: less is not worth a plan that is tuned to the model.
const MOST_CHANGES: usize = 6;
const FASTER: f64 = 0.99;

pub(super) struct Search<'a> {
    program: &'a Program,
    uses: &'a Uses,
    /// The plan without transfers.
    empty: Plan,
    /// The bound of the bytes, and the one of the time if a plan is not close to it.
    bytes: Bound,
    timed: Option<Bound>,
    best: Option<Plan>,
    /// The best plan of a candidate that can be changed.
    start: Option<(Plan, Candidate)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(program: &'a Program, uses: &'a Uses, empty: Plan) -> Self {
        Self {
            program,
            uses,
            bytes: empty.prediction.bound,
            timed: None,
            empty,
            best: None,
            start: None,
        }
    }

    /// The best plan.
    pub(super) fn run(mut self) -> Plan {
        self.candidates();
        if let Some((plan, one)) = self.start.take() {
            self.change(plan, one);
        }
        let best = self.best.take();
        let mut best = best.unwrap_or_else(|| self.empty.clone());
        best.prediction.bound = self.bytes;
        if !self.program.is_close(&best.prediction) {
            best.prediction.bound = self.timed();
        }
        best
    }

    fn candidates(&mut self) {
        let writes = self.uses.buffers.iter().any(|facts| facts.writes);
        let many = self.is_large();
        for in_place in [InPlace::Nothing, InPlace::Free, InPlace::All] {
            let mut buffers = self.uses.buffers.iter();
            if self.best.is_some() && !buffers.any(|facts| in_place.applies(facts)) {
                continue;
            }
            for one in CANDIDATES {
                if (one.out_weight != 1.0 && !writes) || (many && !one.quick) {
                    continue;
                }
                if self.is_done_with(Candidate { in_place, ..one }) {
                    return;
                }
            }
        }
    }

    /// Tries a candidate, and returns whether its plan is good enough.
    fn is_done_with(&mut self, one: Candidate) -> bool {
        let mut plan = self.program.candidate(self.uses, &self.empty, one);
        if self.best.is_none() && !self.program.is_close(&plan.prediction) {
            plan.prediction.bound = self.timed();
            self.empty.prediction.bound = plan.prediction.bound;
        }
        let close = self.program.is_close(&plan.prediction);
        let done = close && (self.is_large() || plan.prediction.moves_little());
        let start = self.start.as_ref().map(|(plan, _)| plan);
        if one.keep == Keep::Best && !self.is_large() && plan.is_better_than_any(start) {
            self.start = Some((plan.clone(), one));
        }
        self.take(plan);
        done
    }

    /// Changes one choice of a candidate as long as a change makes its plan faster.
    fn change(&mut self, mut plan: Plan, mut one: Candidate) {
        let is_close = |plan: &Option<Plan>| {
            let plan = plan.as_ref();
            plan.is_some_and(|plan| self.program.is_close(&plan.prediction))
        };
        if is_close(&self.best) {
            return;
        }
        for _ in 0..MOST_CHANGES {
            let mut changed = None;
            for other in one.neighbours(self.uses.cyclic) {
                let found = self.program.candidate(self.uses, &self.empty, other);
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

    fn take(&mut self, plan: Plan) {
        if plan.is_better_than_any(self.best.as_ref()) {
            self.best = Some(plan);
        }
    }

    fn timed(&mut self) -> Bound {
        let (budget, link) = (self.empty.budget, self.empty.link);
        let timed = || self.program.timed_bound(self.bytes, budget, &link);
        *self.timed.get_or_insert_with(timed)
    }

    fn is_large(&self) -> bool {
        self.uses.all.len() > MANY_USES
    }
}
