//! The cost of buffer tracking for a launch.

use super::measurement::{FACTOR, Measurement};
use crate::Bench;
use crate::measure::Case;
use crate::raw::{Kind, Raw};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "launch",
    what: "Host time of one launch of a kernel that does almost nothing (256 elements), over 500 launches in a row on one stream, \
           which fit into the driver's queue; the wait at the end is not timed. The raw stream is non-blocking, like ours.",
    run,
    notes: super::measurement::no_notes,
};

/// Fewer than fit into the driver's queue; beyond that the host waits.
const LAUNCHES: u32 = 500;
const LEN: usize = 256;

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
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
    let mut memory = (
        raw.allocate(Kind::Device, LEN)?,
        raw.allocate(Kind::Device, LEN)?,
    );
    let mut case = Case::new("one launch", LEN * 4, LEN);
    case.ours("cuda-um, unified buffers", |round| {
        let (input, output) = &mut unified;
        input.copy_from_host(round.source)?;
        input.prefetch(device, stream)?;
        output.prefetch(device, stream)?;
        stream.synchronize()?;
        let time = round.clock.time(|| {
            (0..LAUNCHES)
                .try_for_each(|_| Ok(scale.launch(stream, &*input, &mut *output, FACTOR)?))
        })?;
        stream.synchronize()?;
        output.copy_to_host(round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    case.ours("cuda-um, device buffers", |round| {
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
    case.raw("cuLaunchKernel", |round| {
        let (input, output) = &mut memory;
        raw.copy_from_slice(input, round.source)?;
        raw.wait_for_all()?;
        let time = round
            .clock
            .time(|| (0..LAUNCHES).try_for_each(|_| raw.scale(input, output, FACTOR)))?;
        raw.synchronize()?;
        raw.copy_to_slice(output, round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    cases.push(case.run(&bench.clock, &bench.settings));
    Ok(())
}
