//! The host replaces a buffer that lives on the GPU, and a kernel reads it.

use super::measurement::{FACTOR, Measurement, SIZES};
use crate::Bench;
use crate::measure::Case;
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use std::cell::RefCell;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "rewrite",
    what: "A buffer lives on the GPU. The host replaces all of it with the contents of a slice, a kernel reads it (out = 2 × in, out in \
           device memory), and the host waits for the stream.",
    run,
    notes: super::measurement::no_notes,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    for bytes in bench.settings.sizes(&SIZES) {
        let len = bytes / 4;
        let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
        let unified = RefCell::new((
            UnifiedBuffer::<f32>::zeroed(device, len)?,
            DeviceBuffer::<f32>::zeroed(device, len)?,
        ));
        let mut managed = raw.allocate(Kind::Managed, len)?;
        let mut pinned = raw.allocate(Kind::Pinned, len)?;
        let plain = RefCell::new((
            raw.allocate(Kind::Device, len)?,
            raw.allocate(Kind::Device, len)?,
        ));
        let mut case = Case::of_bytes(bytes);
        case.ours("cuda-um, copy_from_host", |round| {
            let (input, output) = &mut *unified.borrow_mut();
            input.prefetch(device, stream)?;
            stream.synchronize()?;
            let source = round.source;
            let time = round.clock.time(|| {
                input.copy_from_host(source)?;
                scale.launch(stream, &*input, &mut *output, FACTOR)?;
                Ok(stream.synchronize()?)
            })?;
            output.copy_to_host(round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.ours("cuda-um, host guard and prefetch", |round| {
            let (input, output) = &mut *unified.borrow_mut();
            input.prefetch(device, stream)?;
            stream.synchronize()?;
            let source = round.source;
            let time = round.clock.time(|| {
                input.host_mut()?.copy_from_slice(source);
                input.prefetch(device, stream)?;
                scale.launch(stream, &*input, &mut *output, FACTOR)?;
                Ok(stream.synchronize()?)
            })?;
            output.copy_to_host(round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.ours("cuda-um, host_overwrite", |round| {
            let (input, output) = &mut *unified.borrow_mut();
            input.prefetch(device, stream)?;
            stream.synchronize()?;
            let source = round.source;
            let time = round.clock.time(|| {
                input.host_overwrite(.., |first, slots| {
                    let end = first + slots.len();
                    slots.copy_from_slice(&source[first..end])
                })?;
                scale.launch(stream, &*input, &mut *output, FACTOR)?;
                Ok(stream.synchronize()?)
            })?;
            output.copy_to_host(round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.raw("managed: CPU writes, prefetch", |round| {
            raw.prefetch(&managed, true)?;
            raw.synchronize()?;
            let (source, (_, output)) = (round.source, &mut *plain.borrow_mut());
            let time = round.clock.time(|| {
                managed.host_mut().copy_from_slice(source);
                raw.prefetch(&managed, true)?;
                raw.scale(&managed, output, FACTOR)?;
                raw.synchronize()
            })?;
            raw.copy_to_slice(output, round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.raw("pinned: CPU writes, cudaMemcpyAsync", |round| {
            let (source, (input, output)) = (round.source, &mut *plain.borrow_mut());
            let time = round.clock.time(|| {
                pinned.host_mut().copy_from_slice(source);
                raw.copy(&pinned, input)?;
                raw.scale(input, output, FACTOR)?;
                raw.synchronize()
            })?;
            raw.copy_to_slice(output, round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        case.raw("pageable: cudaMemcpy", |round| {
            let (source, (input, output)) = (round.source, &mut *plain.borrow_mut());
            let time = round.clock.time(|| {
                raw.copy_from_slice(input, source)?;
                raw.scale(input, output, FACTOR)?;
                raw.synchronize()
            })?;
            raw.copy_to_slice(output, round.back)?;
            round.verify_back(FACTOR)?;
            Ok(time)
        });
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}
