//! The cost of `Stream::enqueue_foreign`.

use super::measurement::{FACTOR, Measurement};
use crate::Bench;
use crate::measure::Case;
use crate::raw::{Imported, Kind, Raw};
use crate::report::CaseReport;
use anyhow::Result;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "enqueue_foreign",
    what: "Host time of one launch by raw CUDA on its own stream and managed memory (a kernel that does almost nothing, 256 elements), \
           over 500 launches in a row, as it is and within `Stream::enqueue_foreign` with two imported buffers. The wait at the end is \
           not timed.",
    run,
    notes,
};

const OURS: &str = "within enqueue_foreign";
const RAW: &str = "cuLaunchKernel";
/// Fewer than fit into the driver's queue; beyond that the host waits.
const LAUNCHES: u32 = 500;
const LEN: usize = 256;

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let raw = Raw::open(&bench.table, true)?;
    let mut imported = Imported::new(&raw, &bench.device, LEN)?;
    let (mut input, mut output) = (
        raw.allocate(Kind::Managed, LEN)?,
        raw.allocate(Kind::Managed, LEN)?,
    );
    let mut case = Case::new("one launch", LEN * 4, LEN);
    case.ours(OURS, |round| {
        imported.begin(round.source)?;
        let time = round
            .clock
            .time(|| (0..LAUNCHES).try_for_each(|_| imported.scale(FACTOR)))?;
        imported.end(round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    case.raw(RAW, |round| {
        raw.copy_from_slice(&mut input, round.source)?;
        raw.prefetch(&input, true)?;
        raw.prefetch(&output, true)?;
        raw.wait_for_all()?;
        let time = round
            .clock
            .time(|| (0..LAUNCHES).try_for_each(|_| raw.scale(&input, &mut output, FACTOR)))?;
        raw.synchronize()?;
        raw.copy_to_slice(&output, round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    cases.push(case.run(&bench.clock, &bench.many_rounds()));
    Ok(())
}

/// The library's part.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let part = || {
        let case = cases.first()?;
        let nanoseconds = (case.median(OURS)? - case.median(RAW)?) * 1e9;
        Some(format!("{OURS}: {nanoseconds:+.0} ns over {RAW}"))
    };
    part().into_iter().collect()
}
