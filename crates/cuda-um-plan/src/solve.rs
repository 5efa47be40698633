//! The solver.

mod arena;
mod candidate;
mod found;
mod order;
mod resident;
mod schedule;
mod search;
mod sweep;
mod tenants;
mod uses;

use crate::{Link, Plan, PlanBudget, PlanError, Prediction, Program, SLOT_BYTES, Slots};
use candidate::{Candidate, MANY_USES};
use found::Found;
use resident::{choose, side_by_side};
use search::Search;
use sweep::{Choices, Sweep};
use uses::Uses;

/// A plan is good enough, and no other candidate is tried, if its time is this close to the bound. The second number is for
/// programs with many uses.
const CLOSE: [f64; 2] = [1.003, 1.02];

pub use candidate::Recipe;

impl Program {
    /// Plans a pass within a budget.
    ///
    /// A program with more than 2000 uses that also writes is planned on up to nine threads, which end before the call returns. The plan is
    /// that of one thread.
    ///
    /// # Errors
    /// [`PlanError::StepExceedsBudget`] if the buffers of a step do not fit into the budget together, [`PlanError::Invalid`] for
    /// a program or link with values that are not allowed.
    pub fn solve(&self, budget: PlanBudget, link: Link) -> Result<Plan, PlanError> {
        let (uses, empty) = self.begin(budget, link)?;
        let best = Search::new(self, &uses, &empty).run();
        Ok(best.plan(empty))
    }

    /// The plan of a recipe, to compare with. It is valid, and [`solve`](Self::solve) returns no slower one.
    ///
    /// # Errors
    /// As for [`solve`](Self::solve).
    pub fn recipe(
        &self,
        recipe: Recipe,
        budget: PlanBudget,
        link: Link,
    ) -> Result<Plan, PlanError> {
        let (uses, empty) = self.begin(budget, link)?;
        let mut found = self.candidate(&uses, &empty, recipe.candidate());
        found.prediction.bound = self.bound(budget, &link);
        Ok(found.plan(empty))
    }

    fn begin(&self, budget: PlanBudget, link: Link) -> Result<(Uses, Plan), PlanError> {
        self.check()?;
        link.check()?;
        self.check_budget(budget)?;
        let empty = Plan {
            digest: self.digest(),
            budget,
            link,
            resident: Vec::new(),
            steps: Vec::new(),
            prediction: Prediction::default(),
        };
        Ok((Uses::of(self, &link), empty))
    }

    fn candidate(&self, uses: &Uses, empty: &Plan, one: Candidate) -> Found {
        let resident = choose(uses, empty.budget.slots(), one);
        let chosen = resident.iter().flatten().count();
        let found = self.sweep(uses, empty, one, resident);
        if found.resident.len() == chosen || uses.all.len() > MANY_USES {
            return found;
        }
        // Some of them did not stay. Without them there is more space from the beginning.
        let stay = found.resident.iter().map(|placed| placed.buffer);
        let again = self.sweep(uses, empty, one, side_by_side(uses, stay));
        if again.is_better_than(Some(&found)) {
            again
        } else {
            found
        }
    }

    fn sweep(
        &self,
        uses: &Uses,
        empty: &Plan,
        one: Candidate,
        resident: Vec<Option<Slots>>,
    ) -> Found {
        let choices = Choices {
            resident,
            keep: one.keep,
            ahead: one.ahead,
            in_place: one.in_place,
            out_weight: one.out_weight,
        };
        let (resident, mut transfers) = Sweep::new(uses, &choices, empty.budget.slots()).run();
        let prediction = transfers.simulate(self, &empty.link);
        Found {
            resident,
            transfers,
            prediction,
        }
    }

    /// Whether a plan is good enough.
    fn is_close(&self, prediction: &Prediction) -> bool {
        let uses: usize = self.steps.iter().map(|step| step.uses.len()).sum();
        prediction.is_close(CLOSE[usize::from(uses > MANY_USES)])
    }

    fn check_budget(&self, budget: PlanBudget) -> Result<(), PlanError> {
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

impl Prediction {
    /// Whether the time is at most this many times the bound, with the latency of as many transfers as there are.
    fn is_close(&self, times: f64) -> bool {
        let scaled = |seconds: f64, least: u64, bytes: u64| match bytes {
            0 => 0.0,
            _ => seconds * least as f64 / bytes as f64,
        };
        let ins = scaled(self.in_seconds, self.bound.in_bytes, self.in_bytes);
        let outs = scaled(self.out_seconds, self.bound.out_bytes, self.out_bytes);
        let least = ins.max(outs).max(self.bound.seconds);
        self.seconds <= times * least.max(self.compute_seconds)
    }

    /// Whether the bytes are close to the bound, too, so that the link is free for other work.
    fn moves_little(&self) -> bool {
        let bytes = self.in_bytes + self.out_bytes;
        bytes * 50 <= (self.bound.in_bytes + self.bound.out_bytes) * 51
    }
}
