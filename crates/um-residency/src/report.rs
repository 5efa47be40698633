//! What the passes of a plan did, beside what the plan says.

use std::fmt;
use std::time::Duration;

use cuda_um_plan::Prediction;

use crate::pass::Divergence;
use crate::stats::LoggedChange;

/// The passes of a plan: [`Planned::report`](crate::Planned::report).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The prediction of a pass in the steady state.
    pub prediction: Prediction,
    /// The passes so far.
    pub passes: Vec<PassReport>,
    /// The changes of the arena in the last pass: which buffer was in which slots.
    pub changes: Vec<LoggedChange>,
}

/// A pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PassReport {
    /// The device's time from the beginning of the pass to its end, on the stream of the pass.
    pub time: Duration,
    /// Bytes over the link to the device: those that were transferred to the arena, and those that were read in place.
    pub in_bytes: u64,
    /// Bytes that were written back.
    pub out_bytes: u64,
    /// The part of `in_bytes` that was read in place.
    pub in_place_bytes: u64,
    /// The waits of each step for transfers, if they are measured ([`Planned::measure_stalls`](crate::Planned::measure_stalls)).
    pub stalls: Vec<Duration>,
    /// Where the pass left the plan.
    pub divergence: Option<Divergence>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let planned = &self.prediction;
        writeln!(f, "pass       in MiB    out MiB         ms   stalls ms")?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, bytes: [u64; 2], times: [f64; 2]| {
            let [into, out] = bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
            let [time, stalls] = times.map(|seconds| seconds * 1e3);
            writeln!(
                f,
                "{name:<8}{into:>9.1}{out:>11.1}{time:>11.3}{stalls:>12.3}"
            )
        };
        let stalls = planned.stall_seconds.iter().sum();
        let bytes = [planned.in_bytes, planned.out_bytes];
        line(f, "planned", bytes, [planned.seconds, stalls])?;
        for (number, pass) in self.passes.iter().enumerate() {
            let stalls: Duration = pass.stalls.iter().sum();
            let times = [pass.time, stalls].map(|time| time.as_secs_f64());
            let bytes = [pass.in_bytes, pass.out_bytes];
            line(f, &number.to_string(), bytes, times)?;
            if pass.in_place_bytes > 0 {
                let mib = pass.in_place_bytes as f64 / f64::from(1 << 20);
                writeln!(f, "        read in place: {mib:.1} MiB of those in")?;
            }
            if let Some(left) = &pass.divergence {
                let Divergence {
                    step,
                    expected,
                    found,
                } = left;
                writeln!(
                    f,
                    "        left the plan at step {step}: expected {expected:?}, found {found:?}"
                )?;
            }
        }
        Ok(())
    }
}
