//! The solver.

mod arena;
mod resident;
mod schedule;
mod sweep;
mod uses;

use crate::{Budget, Link, Plan, PlanError, Prediction, Program, SLOT_BYTES};
use resident::{Stay, choose};
use sweep::{Choices, Keep, Sweep};
use uses::{InPlace, Uses};

/// A plan whose time is this close to the best possible one needs no other candidate.
const CLOSE: f64 = 1.002;

/// A candidate: who stays between passes, what is kept within a pass, how many transfers have a place ahead of their step.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    stay: Stay,
    keep: Keep,
    ahead: usize,
    in_place: InPlace,
}

const fn candidate(stay: Stay, keep: Keep, ahead: usize) -> Candidate {
    Candidate {
        stay,
        keep,
        ahead,
        in_place: InPlace::Nothing,
    }
}

/// In this order. The last ones are the recipes of programs without a planner, so that no plan is worse.
const CANDIDATES: [Candidate; 8] = [
    candidate(Stay::Spread, Keep::Best, 1),
    candidate(Stay::Nearest, Keep::Best, 1),
    candidate(Stay::Spread, Keep::Best, 2),
    candidate(Stay::Spread, Keep::Best, 0),
    candidate(Stay::Nearest, Keep::Best, 0),
    Recipe::LeastRecentlyUsed.candidate(),
    Recipe::PinnedPrefix.candidate(),
    Recipe::DoubleBuffer.candidate(),
];

/// What programs do without a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// Every step's buffers are transferred while the step before runs, and leave after it.
    DoubleBuffer,
    /// The first buffers of the pass stay, the others have a double buffer.
    PinnedPrefix,
    /// The least recently used buffer leaves, and the next one is transferred during the step before.
    LeastRecentlyUsed,
    /// Buffers that can be read in place are, the others have a double buffer.
    InPlace,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 4] = [
        Self::DoubleBuffer,
        Self::PinnedPrefix,
        Self::LeastRecentlyUsed,
        Self::InPlace,
    ];

    const fn candidate(self) -> Candidate {
        match self {
            Self::DoubleBuffer => candidate(Stay::Nothing, Keep::Resident, 1),
            Self::PinnedPrefix => candidate(Stay::First, Keep::Resident, 1),
            Self::LeastRecentlyUsed => candidate(Stay::Latest, Keep::Recent, 1),
            Self::InPlace => Candidate {
                in_place: InPlace::All,
                ..candidate(Stay::Nothing, Keep::Resident, 1)
            },
        }
    }
}

impl Program {
    /// Plans a pass within a budget.
    ///
    /// # Errors
    /// [`PlanError::StepExceedsBudget`] if the buffers of a step do not fit into the budget together, [`PlanError::Invalid`] for
    /// a program or link with values that are not allowed.
    pub fn solve(&self, budget: Budget, link: Link) -> Result<Plan, PlanError> {
        let (uses, empty) = self.begin(budget, link)?;
        let enough = empty.prediction.bound.seconds * CLOSE;
        let mut best: Option<Plan> = None;
        for in_place in [InPlace::Nothing, InPlace::Free, InPlace::All] {
            if best.is_some() && !uses.buffers.iter().any(|facts| in_place.applies(facts)) {
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

    /// The plan of a recipe, to compare with. It is valid, and [`solve`](Self::solve) returns no slower one.
    ///
    /// # Errors
    /// As for [`solve`](Self::solve).
    pub fn recipe(&self, recipe: Recipe, budget: Budget, link: Link) -> Result<Plan, PlanError> {
        let (uses, empty) = self.begin(budget, link)?;
        Ok(self.candidate(&uses, &empty, recipe.candidate()))
    }

    fn begin(&self, budget: Budget, link: Link) -> Result<(Uses, Plan), PlanError> {
        self.check()?;
        link.check()?;
        self.check_budget(budget)?;
        let empty = Plan {
            digest: self.digest(),
            budget,
            link,
            resident: Vec::new(),
            steps: Vec::new(),
            prediction: Prediction {
                bound: self.bound(budget, &link),
                ..Prediction::default()
            },
        };
        Ok((Uses::of(self, &link), empty))
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
        plan.prediction = plan.simulate(self, empty.prediction.bound);
        plan
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
