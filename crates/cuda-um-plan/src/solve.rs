//! The solver.

use crate::{
    Access, Budget, Link, Moment, Plan, PlanError, PlannedStep, Prediction, Program, Repeat, Role,
    SLOT_BYTES, Slots, Transfer, TransferKind,
};

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
        let mut plan = Plan {
            digest: self.digest(),
            budget,
            link,
            resident: Vec::new(),
            steps: stream(self),
            prediction: Prediction::default(),
        };
        plan.prediction = plan.simulate(self);
        Ok(plan)
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

/// The plan that keeps nothing: each step has its buffers from the first slot on.
fn stream(program: &Program) -> Vec<PlannedStep> {
    let mut used = vec![false; program.buffers.len()];
    let last = program.steps.len().wrapping_sub(1);
    let mut left = vec![0; program.buffers.len()];
    for one in program.steps.iter().flat_map(|step| &step.uses) {
        left[one.buffer] += 1;
    }
    let mut steps = Vec::new();
    for (index, step) in program.steps.iter().enumerate() {
        let mut planned = PlannedStep::default();
        let mut first = 0;
        let here = Moment {
            pass: 0,
            step: index,
        };
        let earliest = match (index, program.repeat) {
            (0, Repeat::Once) => None,
            (0, Repeat::Cyclic) => Some(Moment {
                pass: -1,
                step: last,
            }),
            _ => Some(Moment {
                pass: 0,
                step: index - 1,
            }),
        };
        for one in &step.uses {
            let buffer = &program.buffers[one.buffer];
            let new = !std::mem::replace(&mut used[one.buffer], true);
            left[one.buffer] -= 1;
            let slots = Slots {
                first,
                count: buffer.slots(),
            };
            first = slots.end();
            let claims = one.access == Access::Write || (new && buffer.role == Role::Scratch);
            let transfer = |kind, earliest, deadline| Transfer {
                kind,
                buffer: one.buffer,
                slots,
                earliest,
                deadline,
            };
            let kind = if claims {
                TransferKind::Claim
            } else {
                TransferKind::In
            };
            planned.before.push(transfer(kind, earliest, Some(here)));
            let lives = left[one.buffer] > 0 || buffer.role == Role::ReadWrite;
            if one.access.writes() && lives {
                planned
                    .after
                    .push(transfer(TransferKind::Out, Some(here), None));
            }
            planned
                .after
                .push(transfer(TransferKind::Drop, Some(here), None));
        }
        steps.push(planned);
    }
    steps
}
