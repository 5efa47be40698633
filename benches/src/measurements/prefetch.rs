//! Prefetches, through the library and with raw CUDA.

use super::measurement::{Measurement, SIZES};
use crate::Bench;
use crate::measure::{Budget, Case};
use crate::peer::CUDA_CPP;
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{Location, UnifiedBuffer};
use serde_json::json;

pub(super) const MOVING: Measurement = Measurement {
    name: "prefetch_moving",
    what: "The host has just written the buffer; a prefetch to the GPU and the wait for it.",
    seconds: 12,
    run: |bench, budget, cases| run(bench, budget, cases, must_move),
    notes: super::measurement::no_notes,
};

pub(super) const THERE: Measurement = Measurement {
    name: "prefetch_there",
    what: "64 prefetches to the GPU of data that are already there; the time of one, with its share of the wait at the end.",
    seconds: 12,
    run: |bench, budget, cases| run(bench, budget, cases, already_there),
    notes: super::measurement::no_notes,
};

/// Number of prefetches in a sample with data in place.
const IDLE: usize = 64;

fn run(
    bench: &Bench,
    budget: &mut Budget,
    cases: &mut Vec<CaseReport>,
    case: fn(&Bench, &mut Budget, usize) -> Result<CaseReport>,
) -> Result<()> {
    let sizes = bench.settings.sizes(&SIZES);
    budget.split(sizes.len());
    for bytes in sizes {
        cases.push(case(bench, budget, bytes)?);
    }
    Ok(())
}

fn must_move(bench: &Bench, budget: &mut Budget, bytes: usize) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let mut unified = UnifiedBuffer::<f32>::zeroed(device, bytes / 4)?;
    let mut managed = raw.allocate(Kind::Managed, bytes / 4)?;
    let mut case = Case::of_bytes(bytes);
    case.ours("cuda-um", |round| {
        unified.prefetch_on(Location::Host, stream)?.require()?;
        unified.host_mut()?.copy_from_slice(round.source);
        let time = round.clock.time(|| {
            unified.prefetch_on(device, stream)?.require()?;
            Ok(stream.synchronize()?)
        })?;
        unified.copy_to_host(round.back)?;
        round.verified(time, 1.0)
    });
    case.raw("cudaMemPrefetchAsync", |round| {
        raw.prefetch(&managed, false)?;
        raw.synchronize()?;
        managed.host_mut().copy_from_slice(round.source);
        let time = round.clock.time(|| {
            raw.prefetch(&managed, true)?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(&managed, round.back)?;
        round.verified(time, 1.0)
    });
    let request = json!({"do": "prefetch", "bytes": bytes});
    case.peer(bench, CUDA_CPP, "CUDA C++ cudaMemPrefetchAsync", request);
    Ok(case.run(&bench.clock, &bench.settings, budget))
}

fn already_there(bench: &Bench, budget: &mut Budget, bytes: usize) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let mut unified = UnifiedBuffer::<f32>::zeroed(device, bytes / 4)?;
    let mut managed = raw.allocate(Kind::Managed, bytes / 4)?;
    let mut case = Case::of_bytes(bytes);
    case.ours("cuda-um", |round| {
        unified.copy_from_host(round.source)?;
        unified.prefetch_on(device, stream)?.require()?;
        stream.synchronize()?;
        let time = round.clock.time(|| {
            (0..IDLE).try_for_each(|_| unified.prefetch_on(device, stream)?.require())?;
            Ok(stream.synchronize()?)
        })?;
        unified.copy_to_host(round.back)?;
        round.verified(time / IDLE as u32, 1.0)
    });
    case.raw("cudaMemPrefetchAsync", |round| {
        raw.copy_from_slice(&mut managed, round.source)?;
        raw.prefetch(&managed, true)?;
        raw.synchronize()?;
        let time = round.clock.time(|| {
            (0..IDLE).try_for_each(|_| raw.prefetch(&managed, true))?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(&managed, round.back)?;
        round.verified(time / IDLE as u32, 1.0)
    });
    Ok(case.run(&bench.clock, &bench.settings, budget))
}
