//! The definition of a measurement, and sizes that measurements share.

use crate::Bench;
use crate::measure::Budget;
use crate::report::{CaseReport, MeasurementReport};
use anyhow::Result;
use std::time::Duration;

/// One measurement.
pub struct Measurement {
    /// The name for `--only`.
    pub name: &'static str,
    /// The timed part, and the parts that are not timed.
    pub what: &'static str,
    /// The time on a GPU, with all peers, in seconds. Rounds end when it is over.
    pub seconds: u32,
    pub(super) run: fn(&Bench, &mut Budget, &mut Vec<CaseReport>) -> Result<()>,
    /// Conclusions from the cases, as text.
    pub(super) notes: fn(&[CaseReport]) -> Vec<String>,
}

/// For measurements without notes.
pub(super) fn no_notes(_: &[CaseReport]) -> Vec<String> {
    Vec::new()
}

impl Measurement {
    /// The time in seconds of a run, which may be a quick one.
    pub fn cost(&self, quick: bool) -> u32 {
        if quick {
            self.seconds.div_ceil(4)
        } else {
            self.seconds
        }
    }

    /// Runs the measurement. An error ends it early, and is recorded in the report.
    pub fn run(&self, bench: &Bench) -> MeasurementReport {
        eprintln!("{}", self.name);
        let mut cases = Vec::new();
        let mut budget = Budget::new(Duration::from_secs(self.cost(bench.settings.quick).into()));
        let failed = (self.run)(bench, &mut budget, &mut cases).err();
        let failed = failed.map(|error| format!("{error:#}"));
        if let Some(error) = &failed {
            eprintln!("  FAILED: {error}");
        }
        MeasurementReport {
            name: self.name.to_owned(),
            what: self.what.to_owned(),
            notes: (self.notes)(&cases),
            cases,
            failed,
        }
    }
}

/// Compares a contender with the fastest of some others, which `what` describes.
pub(super) fn against_best(
    case: &CaseReport,
    ours: &str,
    what: &str,
    others: &[&str],
) -> Option<String> {
    let median = case.median(ours)?;
    let (best, name) = others
        .iter()
        .filter_map(|name| Some((case.median(name)?, name)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let ratio = if best > 0.0 { median / best } else { 1.0 };
    Some(format!(
        "{}: {ours} takes {ratio:.2} of the time of {what} ({name})",
        case.label
    ))
}

pub(super) const KIB: usize = 1 << 10;
pub(super) const MIB: usize = 1 << 20;

/// Sizes of the copies: from one element on.
pub(super) const COPIES: [usize; 9] = [
    4,
    4 * KIB,
    64 * KIB,
    256 * KIB,
    MIB,
    4 * MIB,
    16 * MIB,
    256 * MIB,
    1024 * MIB,
];
/// The largest size of managed memory in copies; larger ones use only device memory.
pub(super) const LARGEST_MANAGED: usize = 256 * MIB;
/// Sizes of prefetches.
pub(super) const SIZES: [usize; 6] = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB];
/// From 4 KiB to 256 MiB in powers of 4.
pub(super) const POWERS: [usize; 9] = [
    4 * KIB,
    16 * KIB,
    64 * KIB,
    256 * KIB,
    MIB,
    4 * MIB,
    16 * MIB,
    64 * MIB,
    256 * MIB,
];
/// For differences of some tens of nanoseconds.
pub(super) const MANY_ROUNDS: usize = 301;
/// The factor of the kernels: exact for every number, so results are compared bit for bit.
pub(super) const FACTOR: f32 = 2.0;
