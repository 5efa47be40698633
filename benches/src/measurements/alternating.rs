//! The GPU and the CPU read a buffer in turn.

use super::measurement::{FACTOR, MIB, Measurement};
use crate::Bench;
use crate::measure::{Case, Round};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{AccessPattern, DeviceBuffer, UnifiedBuffer, UnifiedOptions};
use std::cell::RefCell;
use std::time::Duration;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "alternating",
    what: "One turn of four: a kernel reads the whole buffer (out = 2 × in, out in device memory), the host waits for it, then the CPU \
           reads one number of each page of 4 KiB. There are no writes and no prefetches; the driver decides if pages move or are duplicated. \
           One turn is made before. With and without the read-mostly pattern or advice.",
    run,
    notes,
};

/// Turns of a sample.
const TURNS: usize = 4;
/// One number of each page.
const PAGE: usize = 4096 / size_of::<f32>();

const OURS: [&str; 2] = ["cuda-um, ReadMostly", "cuda-um, General"];
const RAW: [&str; 2] = ["raw, SetReadMostly", "raw, no advice"];

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    for bytes in bench.settings.sizes(&[MIB, 16 * MIB, 64 * MIB, 256 * MIB]) {
        let len = bytes / 4;
        let raw = &bench.raw;
        let output = RefCell::new(DeviceBuffer::<f32>::zeroed(&bench.device, len)?);
        let raw_output = RefCell::new(raw.allocate(Kind::Device, len)?);
        let mut case = Case::of_bytes(bytes);
        // Managed memory is allocated again in each sample: only one contender has any at a time, and each sample starts
        // without advice.
        for (name, read_mostly) in OURS.into_iter().zip([true, false]) {
            let (output, scale) = (&output, &scale);
            case.ours(name, move |round| {
                ours(bench, scale, &mut output.borrow_mut(), read_mostly, round)
            });
        }
        for (name, read_mostly) in RAW.into_iter().zip([true, false]) {
            let output = &raw_output;
            case.raw(name, move |round| {
                let output = &mut *output.borrow_mut();
                let mut input = raw.allocate(Kind::Managed, len)?;
                raw.copy_from_slice(&mut input, round.source)?;
                if read_mostly {
                    raw.advise_read_mostly(&input)?;
                }
                let mut seen = f32::NAN;
                let mut turn = || -> Result<()> {
                    raw.scale(&input, output, FACTOR)?;
                    raw.synchronize()?;
                    seen = look(input.host());
                    Ok(())
                };
                turn()?;
                let time = round.clock.time_each(TURNS, &mut turn)?;
                round.verify_that(seen == look(round.source), "what the CPU read")?;
                raw.copy_to_slice(output, round.back)?;
                round.verify_back(FACTOR)?;
                input.free()?;
                Ok(time)
            });
        }
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

fn ours(
    bench: &Bench,
    scale: &Scale,
    output: &mut DeviceBuffer<f32>,
    read_mostly: bool,
    round: &mut Round<'_>,
) -> Result<Duration> {
    let stream = &bench.stream;
    let pattern = match read_mostly {
        true => AccessPattern::ReadMostly,
        false => AccessPattern::General,
    };
    let options = UnifiedOptions::default().pattern(pattern);
    let input = UnifiedBuffer::from_slice_with(&bench.device, round.source, options)?;
    let mut seen = f32::NAN;
    let mut turn = || -> Result<()> {
        scale.launch(stream, &input, &mut *output, FACTOR)?;
        stream.synchronize()?;
        seen = look(&input.host()?);
        Ok(())
    };
    turn()?;
    let time = round.clock.time_each(TURNS, &mut turn)?;
    round.verify_that(seen == look(round.source), "what the CPU read")?;
    output.copy_to_host(round.back)?;
    round.verify_back(FACTOR)?;
    input.close()?;
    Ok(time)
}

/// Reads one number of each page. Equal numbers give a bit-identical sum.
fn look(numbers: &[f32]) -> f32 {
    numbers.iter().step_by(PAGE).sum()
}

fn notes(cases: &[CaseReport]) -> Vec<String> {
    let advised = |case: &CaseReport| {
        let (with, without) = (case.median(OURS[0])?, case.median(OURS[1])?);
        Some(format!(
            "{}: with the pattern, ours takes {:.2} of the time without",
            case.label,
            with / without
        ))
    };
    cases.iter().filter_map(advised).collect()
}
