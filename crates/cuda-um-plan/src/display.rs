//! A plan for a terminal.

use crate::{Plan, TransferKind, units};
use std::fmt;

/// Steps that are named with their stalls.
const MOST_STALLS: usize = 5;

/// Bytes, times, the distance from the lower bound, and the steps that wait longest.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prediction = self.prediction();
        let count = |kind: TransferKind| {
            let steps = self.steps().iter();
            let all = steps.flat_map(|step| step.before.iter().chain(&step.after));
            all.filter(|one| one.kind == kind).count()
        };
        let bound = prediction.bound;
        let stalls: f64 = prediction.stall_seconds.iter().sum();
        writeln!(
            f,
            "budget {}: {} buffers stay between passes",
            units::bytes(self.budget().bytes),
            self.resident().len()
        )?;
        writeln!(
            f,
            "a pass takes {}: steps {}, waiting {}",
            units::seconds(prediction.seconds),
            units::seconds(prediction.compute_seconds),
            units::seconds(stalls)
        )?;
        writeln!(
            f,
            "in {} in {} transfers, {} read in place; at least {}",
            units::bytes(prediction.in_bytes),
            count(TransferKind::In),
            count(TransferKind::ReadInPlace),
            units::bytes(bound.in_bytes)
        )?;
        writeln!(
            f,
            "out {} in {} transfers; at least {}",
            units::bytes(prediction.out_bytes),
            count(TransferKind::Out),
            units::bytes(bound.out_bytes)
        )?;
        if bound.seconds > 0.0 {
            let ratio = prediction.seconds / bound.seconds;
            let least = units::seconds(bound.seconds);
            writeln!(f, "{ratio:.3} times the lower bound of {least}")?;
        }
        let mut longest: Vec<_> = prediction.stall_seconds.iter().enumerate().collect();
        longest.sort_by(|one, other| other.1.total_cmp(one.1));
        for (step, &seconds) in longest.into_iter().take(MOST_STALLS) {
            if seconds > 0.0 {
                writeln!(f, "step {step} waits {}", units::seconds(seconds))?;
            }
        }
        Ok(())
    }
}
