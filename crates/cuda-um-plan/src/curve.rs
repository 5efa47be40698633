//! The effect of the budget.

use crate::{Link, PlanBudget, PlanError, Program, units};
use std::fmt;

/// Plans of one program for several budgets.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Curve {
    /// The sizes of all buffers together.
    pub buffer_bytes: u64,
    /// One entry for each budget, in the given order.
    pub points: Vec<Point>,
}

/// The plan for a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The budget.
    pub budget: PlanBudget,
    /// Bytes to the device in a pass.
    pub in_bytes: u64,
    /// Bytes from the device in a pass.
    pub out_bytes: u64,
    /// The time of a pass in seconds.
    pub seconds: f64,
    /// The lower bound of the time in seconds.
    pub bound_seconds: f64,
}

impl Program {
    /// Plans the program for each budget. Budgets that are too small for a step are left out.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] for a program or link with values that are not allowed, [`PlanError::StepExceedsBudget`] if all
    /// budgets are too small.
    pub fn curve(&self, link: Link, budgets: &[PlanBudget]) -> Result<Curve, PlanError> {
        let mut curve = Curve {
            buffer_bytes: self.buffers.iter().map(|buffer| buffer.bytes).sum(),
            points: Vec::new(),
        };
        let mut small = None;
        for &budget in budgets {
            match self.solve(budget, link) {
                Ok(plan) => {
                    let prediction = plan.prediction();
                    curve.points.push(Point {
                        budget,
                        in_bytes: prediction.in_bytes,
                        out_bytes: prediction.out_bytes,
                        seconds: prediction.seconds,
                        bound_seconds: prediction.bound.seconds,
                    });
                }
                Err(error @ PlanError::StepExceedsBudget { .. }) => small = Some(error),
                Err(error) => return Err(error),
            }
        }
        match small {
            Some(error) if curve.points.is_empty() => Err(error),
            _ => Ok(curve),
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>10} {:>10} {:>10} {:>10} {:>10}",
            "budget", "in", "out", "time", "bound"
        )?;
        for point in &self.points {
            writeln!(
                f,
                "{:>10} {:>10} {:>10} {:>10} {:>10}",
                units::bytes(point.budget.bytes),
                units::bytes(point.in_bytes),
                units::bytes(point.out_bytes),
                units::seconds(point.seconds),
                units::seconds(point.bound_seconds)
            )?;
        }
        Ok(())
    }
}
