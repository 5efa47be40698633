//! The host writes, one kernel processes the data, and the host reads.

use super::measurement::{FACTOR, Measurement, POWERS};
use crate::Bench;
use crate::measure::{Case, repeats};
use crate::peer::TORCH;
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{AccessPattern, Location, Placement, UnifiedBuffer, UnifiedOptions};
use serde_json::json;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "round_trip",
    what: "Data in a slice of ordinary memory goes through a kernel (out = 2 × in) into another slice; the size is that of the data \
           one way. Buffers exist before, and have been used once. Every contender uses its own method: copy the slices, or \
           write and read pinned, managed or mapped memory with the CPU. Auto gets the patterns StreamOnce and ReadBack.",
    run,
    notes,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    for bytes in bench.settings.sizes(&POWERS) {
        let (len, repeats) = (bytes / 4, repeats(bytes));
        let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
        let mut on_device = [
            raw.allocate(Kind::Device, len)?,
            raw.allocate(Kind::Device, len)?,
        ];
        let mut pinned = [
            raw.allocate(Kind::Pinned, len)?,
            raw.allocate(Kind::Pinned, len)?,
        ];
        let pair = || -> Result<_> {
            let input = UnifiedBuffer::<f32>::zeroed(device, len)?;
            Ok((input, UnifiedBuffer::<f32>::zeroed(device, len)?))
        };
        let mut case = Case::of_bytes(bytes);

        // Managed memory is allocated again in each sample, used once and then timed: only one contender has any at a time.
        for (name, placement) in [
            ("cuda-um, copies", Placement::Managed),
            ("cuda-um, Auto", Placement::Auto),
            ("cuda-um, mapped", Placement::Mapped),
        ] {
            let (stream, scale) = (&stream, &scale);
            case.ours(name, move |round| {
                let zeroed = |pattern| {
                    let options = UnifiedOptions::default()
                        .pattern(pattern)
                        .placement(placement);
                    UnifiedBuffer::<f32>::zeroed_with(device, len, options)
                };
                let mut input = zeroed(AccessPattern::StreamOnce)?;
                let mut output = zeroed(AccessPattern::ReadBack)?;
                let (source, back) = (round.source, &mut *round.back);
                let mut trip = || -> Result<()> {
                    input.copy_from_host(source)?;
                    scale.launch(stream, &input, &mut output, FACTOR)?;
                    Ok(output.copy_to_host(back)?)
                };
                trip()?;
                let time = round.clock.time_each(repeats, &mut trip)?;
                round.verify_back(FACTOR)?;
                input.close()?;
                output.close()?;
                Ok(time)
            });
        }
        case.ours("cuda-um, host guards and prefetch", |round| {
            let (mut input, mut output) = pair()?;
            let (source, back) = (round.source, &mut *round.back);
            let mut trip = || -> Result<()> {
                input.host_mut()?.copy_from_slice(source);
                input.prefetch(device, stream)?;
                output.prefetch(device, stream)?;
                scale.launch(stream, &input, &mut output, FACTOR)?;
                output.prefetch(Location::Host, stream)?;
                back.copy_from_slice(&output.host()?);
                Ok(())
            };
            trip()?;
            let time = round.clock.time_each(repeats, &mut trip)?;
            round.verify_back(FACTOR)?;
            input.close()?;
            output.close()?;
            Ok(time)
        });
        let [input, output] = &mut on_device;
        let shared = std::cell::RefCell::new((input, output));
        let [pinned_input, pinned_output] = &mut pinned;
        let staging = std::cell::RefCell::new((pinned_input, pinned_output));
        case.raw("pageable", |round| {
            let (input, output) = &mut *shared.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(repeats, || {
                raw.copy_from_slice(input, source)?;
                raw.scale(input, output, FACTOR)?;
                raw.copy_to_slice(output, back)
            })?;
            raw.synchronize()?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.raw("pinned", |round| {
            let (input, output) = &mut *shared.borrow_mut();
            let (pinned_input, pinned_output) = &mut *staging.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(repeats, || {
                pinned_input.host_mut().copy_from_slice(source);
                raw.copy(pinned_input, input)?;
                raw.scale(input, output, FACTOR)?;
                raw.copy(output, pinned_output)?;
                raw.synchronize()?;
                back.copy_from_slice(pinned_output.host());
                Ok(())
            })?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.raw("managed + prefetch", |round| {
            let mut input = raw.allocate(Kind::Managed, len)?;
            let mut output = raw.allocate(Kind::Managed, len)?;
            let (source, back) = (round.source, &mut *round.back);
            let mut trip = || -> Result<()> {
                input.host_mut().copy_from_slice(source);
                raw.prefetch(&input, true)?;
                raw.prefetch(&output, true)?;
                raw.scale(&input, &mut output, FACTOR)?;
                raw.prefetch(&output, false)?;
                raw.synchronize()?;
                back.copy_from_slice(output.host());
                Ok(())
            };
            trip()?;
            let time = round.clock.time_each(repeats, &mut trip)?;
            round.verify_back(FACTOR)?;
            input.free()?;
            output.free()?;
            Ok(time)
        });
        case.raw("mapped", |round| {
            let (input, output) = &mut *staging.borrow_mut();
            let (source, back) = (round.source, &mut *round.back);
            let time = round.clock.time_each(repeats, || {
                input.host_mut().copy_from_slice(source);
                raw.scale(input, output, FACTOR)?;
                raw.synchronize()?;
                back.copy_from_slice(output.host());
                Ok(())
            })?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        let request = json!({"do": "round_trip", "bytes": bytes, "repeats": repeats});
        case.peer(bench, TORCH, "PyTorch copy_, mul, copy_", request);
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

/// Compares Auto with the best hand-written version.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let against = |case: &CaseReport| {
        let auto = case.median("cuda-um, Auto")?;
        let by_hand = ["pageable", "pinned", "managed + prefetch", "mapped"]
            .into_iter()
            .filter_map(|name| Some((case.median(name)?, name)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!(
            "{}: Auto takes {:.2} of the time of the best hand-written version ({})",
            case.label,
            auto / by_hand.0,
            by_hand.1
        ))
    };
    cases.iter().filter_map(against).collect()
}
