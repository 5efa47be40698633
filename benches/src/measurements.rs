//! The measurements, one file for each.

mod allocate;
mod alternating;
mod copy_from_host;
mod copy_to_host;
mod from_slice;
mod launch;
mod pool_growth;
mod prefetch;
mod prefetch_batch;
mod recall;
mod rewrite;
mod round_trip;

use crate::Bench;
use crate::report::{CaseReport, MeasurementReport};
use anyhow::Result;

/// One measurement.
pub struct Measurement {
    /// The name for `--only`.
    pub name: &'static str,
    /// The timed part, and the parts that are not timed.
    pub what: &'static str,
    run: fn(&Bench, &mut Vec<CaseReport>) -> Result<()>,
    /// Conclusions from the cases, as text.
    notes: fn(&[CaseReport]) -> Vec<String>,
}

/// For measurements without notes.
fn no_notes(_: &[CaseReport]) -> Vec<String> {
    Vec::new()
}

/// All measurements, in the order of the report.
pub const ALL: [Measurement; 14] = [
    copy_from_host::RETURNED,
    copy_from_host::ARRIVED,
    copy_to_host::MEASUREMENT,
    from_slice::MEASUREMENT,
    round_trip::MEASUREMENT,
    rewrite::MEASUREMENT,
    prefetch::MOVING,
    prefetch::THERE,
    prefetch_batch::MEASUREMENT,
    alternating::MEASUREMENT,
    launch::MEASUREMENT,
    allocate::MEASUREMENT,
    pool_growth::MEASUREMENT,
    recall::MEASUREMENT,
];

/// The measurements of the overview, with their titles.
pub const OVERVIEW: [(&str, &str); 4] = [
    ("copy_from_host", "Slice to a buffer on the GPU"),
    ("copy_to_host", "Buffer on the GPU to a slice"),
    ("from_slice", "New buffer from a slice"),
    ("round_trip", "Slice, kernel, slice"),
];

impl Measurement {
    /// Runs the measurement. An error ends it early, and is recorded in the report.
    pub fn run(&self, bench: &Bench) -> MeasurementReport {
        eprintln!("{}", self.name);
        let mut cases = Vec::new();
        let failed = (self.run)(bench, &mut cases).err();
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

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Sizes of the copies.
const SIZES: [usize; 6] = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB];
/// From 4 KiB to 256 MiB in powers of 4.
const POWERS: [usize; 9] = [
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
/// The factor of the kernels: exact for every number, so results are compared bit for bit.
const FACTOR: f32 = 2.0;
