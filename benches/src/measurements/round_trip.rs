//! The host writes, one kernel processes the data, and the host reads.

use super::measurement::{FACTOR, Measurement, POWERS, against_best};
use crate::Bench;
use crate::clock::Clock;
use crate::measure::{Budget, Case, repeats};
use crate::peer::TORCH;
use crate::raw::{Kind, Memory};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{AccessPattern, Location, Placement, UnifiedBuffer, UnifiedOptions};
use serde_json::json;
use std::cell::RefCell;
use std::time::Duration;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "round_trip",
    what: "Data in a slice of ordinary memory goes through a kernel (out = 2 × in) into another slice; the size is that of the data \
           one way. Buffers exist before, and have been used once. Every contender uses its own method: copy the slices, or \
           write and read pinned, managed or mapped memory with the CPU. Auto gets the patterns StreamOnce and ReadBack.",
    seconds: 40,
    run,
    notes,
};

const AUTO: &str = "cuda-um, Auto";

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    let sizes = bench.settings.sizes(&POWERS);
    budget.split(sizes.len());
    for bytes in sizes {
        let (len, repeats) = (bytes / 4, repeats(bytes));
        let pair = |kind| -> Result<_> {
            let memory = [
                bench.raw.allocate(kind, len)?,
                bench.raw.allocate(kind, len)?,
            ];
            Ok(RefCell::new(memory))
        };
        let (on_device, pinned) = (pair(Kind::Device)?, pair(Kind::Pinned)?);
        let mut case = Case::of_bytes(bytes);
        let trip = Trip {
            bench,
            scale: &scale,
            len,
            repeats,
        };
        trip.copies(&mut case, "cuda-um, copies", Placement::Managed);
        trip.copies(&mut case, AUTO, Placement::Auto);
        trip.copies(&mut case, "cuda-um, mapped", Placement::Mapped);
        trip.guards(&mut case);
        trip.raw_copies(&mut case, &on_device, &pinned);
        trip.raw_managed(&mut case);
        trip.raw_mapped(&mut case, &pinned);
        let request = json!({"do": "round_trip", "bytes": bytes, "repeats": repeats});
        case.peer(bench, TORCH, "PyTorch copy_, mul, copy_", request);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

/// The input and the output.
type Pair = RefCell<[Memory; 2]>;

/// The contenders of one size. Managed memory is allocated again in each sample, used once and then timed: only one contender has
/// any at a time.
#[derive(Clone, Copy)]
struct Trip<'a> {
    bench: &'a Bench,
    scale: &'a Scale,
    len: usize,
    repeats: usize,
}

impl<'a> Trip<'a> {
    /// Buffers of cuda-um that the host copies into and from.
    fn copies(self, case: &mut Case<'a>, name: &str, placement: Placement) {
        let (device, stream) = (&self.bench.device, &self.bench.stream);
        case.ours(name, move |round| {
            let zeroed = |pattern| {
                let options = UnifiedOptions::default()
                    .pattern(pattern)
                    .placement(placement);
                UnifiedBuffer::<f32>::zeroed_with(device, self.len, options)
            };
            let mut input = zeroed(AccessPattern::StreamOnce)?;
            let mut output = zeroed(AccessPattern::ReadBack)?;
            let (source, back) = (round.source, &mut *round.back);
            let time = self.time_used(round.clock, || {
                input.copy_from_host(source)?;
                self.scale.launch(stream, &input, &mut output, FACTOR)?;
                Ok(output.copy_to_host(back)?)
            })?;
            round.verify_back(FACTOR)?;
            input.close()?;
            output.close()?;
            Ok(time)
        });
    }

    /// Managed buffers of cuda-um that the host writes and reads in place.
    fn guards(self, case: &mut Case<'a>) {
        let (device, stream) = (&self.bench.device, &self.bench.stream);
        case.ours("cuda-um, host guards and prefetch", move |round| {
            let mut input = UnifiedBuffer::<f32>::zeroed(device, self.len)?;
            let mut output = UnifiedBuffer::<f32>::zeroed(device, self.len)?;
            let (source, back) = (round.source, &mut *round.back);
            let time = self.time_used(round.clock, || {
                input.host_mut()?.copy_from_slice(source);
                input.prefetch_on(device, stream)?.require()?;
                output.prefetch_on(device, stream)?.require()?;
                self.scale.launch(stream, &input, &mut output, FACTOR)?;
                output.prefetch_on(Location::Host, stream)?.require()?;
                back.copy_from_slice(&output.host()?);
                Ok(())
            })?;
            round.verify_back(FACTOR)?;
            input.close()?;
            output.close()?;
            Ok(time)
        });
    }

    /// Times a trip after one that is not timed.
    fn time_used(self, clock: &Clock, mut trip: impl FnMut() -> Result<()>) -> Result<Duration> {
        trip()?;
        clock.time_each(self.repeats, trip)
    }

    fn raw_copies(self, case: &mut Case<'a>, on_device: &'a Pair, pinned: &'a Pair) {
        let raw = &self.bench.raw;
        case.raw("pageable", move |round| {
            let [input, output] = &mut *on_device.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(self.repeats, || {
                raw.copy_from_slice(input, source)?;
                raw.scale(input, output, FACTOR)?;
                raw.copy_to_slice(output, back)
            })?;
            raw.synchronize()?;
            round.verified(time, FACTOR)
        });
        case.raw("pinned", move |round| {
            let [input, output] = &mut *on_device.borrow_mut();
            let [pinned_input, pinned_output] = &mut *pinned.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(self.repeats, || {
                pinned_input.host_mut().copy_from_slice(source);
                raw.copy(pinned_input, input)?;
                raw.scale(input, output, FACTOR)?;
                raw.copy(output, pinned_output)?;
                raw.synchronize()?;
                back.copy_from_slice(pinned_output.host());
                Ok(())
            })?;
            round.verified(time, FACTOR)
        });
    }

    fn raw_managed(self, case: &mut Case<'a>) {
        let raw = &self.bench.raw;
        case.raw("managed + prefetch", move |round| {
            let mut input = raw.allocate(Kind::Managed, self.len)?;
            let mut output = raw.allocate(Kind::Managed, self.len)?;
            let (source, back) = (round.source, &mut *round.back);
            let time = self.time_used(round.clock, || {
                input.host_mut().copy_from_slice(source);
                raw.prefetch(&input, true)?;
                raw.prefetch(&output, true)?;
                raw.scale(&input, &mut output, FACTOR)?;
                raw.prefetch(&output, false)?;
                raw.synchronize()?;
                back.copy_from_slice(output.host());
                Ok(())
            })?;
            round.verify_back(FACTOR)?;
            input.free()?;
            output.free()?;
            Ok(time)
        });
    }

    /// Pinned memory that the kernel reads and writes over the link.
    fn raw_mapped(self, case: &mut Case<'a>, pinned: &'a Pair) {
        let raw = &self.bench.raw;
        case.raw("mapped", move |round| {
            let [input, output] = &mut *pinned.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(self.repeats, || {
                input.host_mut().copy_from_slice(source);
                raw.scale(input, output, FACTOR)?;
                raw.synchronize()?;
                back.copy_from_slice(output.host());
                Ok(())
            })?;
            round.verified(time, FACTOR)
        });
    }
}

/// Compares Auto with the best hand-written version.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let by_hand = ["pageable", "pinned", "managed + prefetch", "mapped"];
    let what = "the best hand-written version";
    cases
        .iter()
        .filter_map(|case| against_best(case, AUTO, what, &by_hand))
        .collect()
}
