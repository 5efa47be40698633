//! The cost of buffer tracking for a launch.

use super::measurement::{FACTOR, MANY_ROUNDS, Measurement};
use crate::Bench;
use crate::measure::{Budget, Case};
use crate::raw::{Kind, Raw};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use std::rc::Rc;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "launch",
    what: "Host time of one launch of a kernel that does almost nothing (256 elements), over 500 launches in a row on one stream, \
           which fit into the driver's queue; the wait at the end is not timed. Raw CUDA launches the same kernel with the same two \
           buffers and numbers; its stream is non-blocking, like ours.",
    seconds: 15,
    run,
    notes,
};

/// Ours, and raw CUDA with the same memory.
const PAIRS: [(&str, &str); 2] = [
    ("cuda-um, unified buffers", "cuLaunchKernel, managed"),
    ("cuda-um, device buffers", "cuLaunchKernel, cudaMalloc"),
];

/// Fewer than fit into the driver's queue; beyond that the host waits.
const LAUNCHES: u32 = 500;
const LEN: usize = 256;

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let (device, stream) = (&bench.device, &bench.stream);
    let scale = Scale::load(device)?;
    let raw = Raw::open(&bench.table, true)?;
    let mut unified = (
        UnifiedBuffer::<f32>::zeroed(device, LEN)?,
        UnifiedBuffer::<f32>::zeroed(device, LEN)?,
    );
    let mut plain = (
        DeviceBuffer::<f32>::zeroed(device, LEN)?,
        DeviceBuffer::<f32>::zeroed(device, LEN)?,
    );
    let mut case = Case::new("one launch", LEN * 4, LEN);
    case.ours(PAIRS[0].0, |round| {
        let (input, output) = &mut unified;
        input.copy_from_host(round.source)?;
        input.prefetch_on(device, stream)?.require()?;
        output.prefetch_on(device, stream)?.require()?;
        stream.synchronize()?;
        let time = round.clock.time(|| {
            (0..LAUNCHES)
                .try_for_each(|_| Ok(scale.launch(stream, &*input, &mut *output, FACTOR)?))
        })?;
        stream.synchronize()?;
        output.copy_to_host(round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    case.ours(PAIRS[1].0, |round| {
        let (input, output) = &mut plain;
        input.copy_from_host(round.source)?;
        stream.synchronize()?;
        let time = round.clock.time(|| {
            (0..LAUNCHES)
                .try_for_each(|_| Ok(scale.launch(stream, &*input, &mut *output, FACTOR)?))
        })?;
        stream.synchronize()?;
        output.copy_to_host(round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    for (name, kind) in [(PAIRS[0].1, Kind::Managed), (PAIRS[1].1, Kind::Device)] {
        add_raw(&mut case, &raw, name, kind)?;
    }
    case.rounds(MANY_ROUNDS);
    cases.push(case.run(&bench.clock, &bench.settings, budget));
    Ok(())
}

fn add_raw<'a>(case: &mut Case<'a>, raw: &'a Rc<Raw>, name: &str, kind: Kind) -> Result<()> {
    let (mut input, mut output) = (raw.allocate(kind, LEN)?, raw.allocate(kind, LEN)?);
    case.raw(name, move |round| {
        raw.copy_from_slice(&mut input, round.source)?;
        if kind == Kind::Managed {
            raw.prefetch(&input, true)?;
            raw.prefetch(&output, true)?;
        }
        raw.wait_for_all()?;
        let time = round
            .clock
            .time(|| (0..LAUNCHES).try_for_each(|_| raw.scale(&input, &mut output, FACTOR)))?;
        raw.synchronize()?;
        raw.copy_to_slice(&output, round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    Ok(())
}

/// The library's part of a launch.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let part = |(ours, raw): &(&str, &str)| {
        let case = cases.first()?;
        let more = case.median(ours)? - case.median(raw)?;
        let nanoseconds = more * 1e9;
        Some(format!("{ours}: {nanoseconds:+.0} ns over {raw}"))
    };
    PAIRS.iter().filter_map(part).collect()
}
