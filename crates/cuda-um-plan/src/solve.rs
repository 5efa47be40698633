//! The solver.

mod arena;
mod resident;
mod schedule;
mod sweep;
mod uses;

use crate::{Budget, Link, Plan, PlanError, Prediction, Program, SLOT_BYTES};
use resident::{Stay, choose};
use sweep::{Choices, Keep, Sweep};
use uses::Uses;

/// A plan whose time is this close to the best possible one needs no other candidate.
const CLOSE: f64 = 1.002;

/// A candidate: who stays between passes, what is kept within a pass, how many transfers have a place ahead of their step.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    stay: Stay,
    keep: Keep,
    ahead: usize,
    in_place: bool,
}

const fn candidate(stay: Stay, keep: Keep, ahead: usize) -> Candidate {
    Candidate {
        stay,
        keep,
        ahead,
        in_place: false,
    }
}

/// In this order. The last ones are the recipes of programs without a planner, so that no plan is worse.
const CANDIDATES: [Candidate; 8] = [
    candidate(Stay::Spread, Keep::Best, 1),
    candidate(Stay::Nearest, Keep::Best, 1),
    candidate(Stay::Spread, Keep::Best, 2),
    candidate(Stay::Spread, Keep::Best, 0),
    candidate(Stay::Nearest, Keep::Best, 0),
    candidate(Stay::Latest, Keep::Recent, 1),
    candidate(Stay::First, Keep::Resident, 1),
    candidate(Stay::Nothing, Keep::Resident, 1),
];

impl Program {
    /// Plans a pass within a budget.
    ///
    /// # Errors
    /// [`PlanError::StepExceedsBudget`] if the buffers of a step do not fit into the budget together, [`PlanError::Invalid`] for
    /// a program or link with values that are not allowed.
    pub fn solve(&self, budget: Budget, link: Link) -> Result<Plan, PlanError> {
        self.check()?;
        link.check()?;
        self.check_budget(budget)?;
        let uses = Uses::of(self, &link);
        let empty = Plan {
            digest: self.digest(),
            budget,
            link,
            resident: Vec::new(),
            steps: Vec::new(),
            prediction: Prediction::default(),
        };
        let enough = self.floor_seconds(&uses, &link) * CLOSE;
        let mut best: Option<Plan> = None;
        for in_place in [false, true] {
            if in_place && !uses.buffers.iter().any(|facts| facts.in_place) {
                continue;
            }
            for one in CANDIDATES {
                let plan = self.candidate(&uses, &empty, Candidate { in_place, ..one });
                let done = plan.prediction.seconds <= enough;
                if best.as_ref().is_none_or(|best| plan.is_better_than(best)) {
                    best = Some(plan);
                }
                if done {
                    break;
                }
            }
        }
        Ok(best.unwrap_or(empty))
    }

    fn candidate(&self, uses: &Uses, empty: &Plan, one: Candidate) -> Plan {
        let slots = empty.budget.slots();
        let choices = Choices {
            resident: choose(uses, one.stay, slots, one.ahead, one.in_place),
            keep: one.keep,
            ahead: one.ahead,
            in_place: one.in_place,
        };
        let schedule = Sweep::new(uses, &choices, slots).run();
        let mut plan = Plan {
            resident: schedule.resident,
            steps: schedule.steps,
            ..empty.clone()
        };
        plan.prediction = plan.simulate(self);
        plan
    }

    /// A time that no plan beats.
    fn floor_seconds(&self, _: &Uses, _: &Link) -> f64 {
        self.steps.iter().map(|step| step.compute_seconds).sum()
    }

    fn check_budget(&self, budget: Budget) -> Result<(), PlanError> {
        for (index, step) in self.steps.iter().enumerate() {
            let slots = step.uses.iter().map(|one| self.buffers[one.buffer].slots());
            let needed = slots.sum::<u64>();
            if needed > budget.slots() {
                return Err(PlanError::StepExceedsBudget {
                    step: index,
                    name: step.name.clone(),
                    needed: needed * SLOT_BYTES,
                    budget: budget.slots() * SLOT_BYTES,
                });
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Times within a thousandth are the same: fewer bytes are better then.
    fn is_better_than(&self, other: &Self) -> bool {
        let (one, other) = (&self.prediction, &other.prediction);
        let bytes = |prediction: &Prediction| prediction.in_bytes + prediction.out_bytes;
        if one.seconds < other.seconds * 0.999 {
            return true;
        }
        one.seconds <= other.seconds * 1.001 && bytes(one) < bytes(other)
    }
}
