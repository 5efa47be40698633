//! The host replaces a buffer that lives on the GPU, and a kernel reads it.

use super::measurement::{FACTOR, Measurement, SIZES};
use crate::Bench;
use crate::measure::Case;
use crate::raw::{Kind, Memory};
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
        let unified = RefCell::new((
            UnifiedBuffer::<f32>::zeroed(&bench.device, len)?,
            DeviceBuffer::<f32>::zeroed(&bench.device, len)?,
        ));
        let plain = RefCell::new((
            bench.raw.allocate(Kind::Device, len)?,
            bench.raw.allocate(Kind::Device, len)?,
        ));
        let mut case = Case::of_bytes(bytes);
        ours(&mut case, bench, &scale, &unified);
        raw(&mut case, bench, len, &plain)?;
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

/// Adds the contenders of cuda-um, with the input and the output of the kernel.
fn ours<'a>(
    case: &mut Case<'a>,
    bench: &'a Bench,
    scale: &'a Scale,
    buffers: &'a RefCell<(UnifiedBuffer<f32>, DeviceBuffer<f32>)>,
) {
    type Replace = fn(&Bench, &mut UnifiedBuffer<f32>, &[f32]) -> Result<()>;
    let replace: [(&str, Replace); 3] = [
        ("cuda-um, copy_from_host", |_, input, source| {
            Ok(input.copy_from_host(source)?)
        }),
        (
            "cuda-um, host guard and prefetch",
            |bench, input, source| {
                input.host_mut()?.copy_from_slice(source);
                Ok(input.prefetch_on(&bench.device, &bench.stream)?.require()?)
            },
        ),
        ("cuda-um, host_overwrite", |_, input, source| {
            Ok(input.host_overwrite(.., |first, slots| {
                let end = first + slots.len();
                slots.copy_from_slice(&source[first..end])
            })?)
        }),
    ];
    let (device, stream) = (&bench.device, &bench.stream);
    for (name, replace) in replace {
        case.ours(name, move |round| {
            let (input, output) = &mut *buffers.borrow_mut();
            input.prefetch_on(device, stream)?.require()?;
            stream.synchronize()?;
            let source = round.source;
            let time = round.clock.time(|| {
                replace(bench, input, source)?;
                scale.launch(stream, &*input, &mut *output, FACTOR)?;
                Ok(stream.synchronize()?)
            })?;
            output.copy_to_host(round.back)?;
            round.verified(time, FACTOR)
        });
    }
}

/// Adds raw CUDA, with device memory for the input and the output of the kernel.
fn raw<'a>(
    case: &mut Case<'a>,
    bench: &'a Bench,
    len: usize,
    plain: &'a RefCell<(Memory, Memory)>,
) -> Result<()> {
    let raw = &bench.raw;
    let mut managed = raw.allocate(Kind::Managed, len)?;
    let mut pinned = raw.allocate(Kind::Pinned, len)?;
    case.raw("managed: CPU writes, prefetch", move |round| {
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
        round.verified(time, FACTOR)
    });
    let through_pinned = move |input: &mut Memory, source: &[f32]| {
        pinned.host_mut().copy_from_slice(source);
        raw.copy(&pinned, input)
    };
    let name = "pinned: CPU writes, cudaMemcpyAsync";
    copies(case, bench, plain, name, through_pinned);
    copies(
        case,
        bench,
        plain,
        "pageable: cudaMemcpy",
        |input, source| raw.copy_from_slice(input, source),
    );
    Ok(())
}

/// Adds raw CUDA that copies the slice into device memory.
fn copies<'a>(
    case: &mut Case<'a>,
    bench: &'a Bench,
    plain: &'a RefCell<(Memory, Memory)>,
    name: &str,
    mut copy: impl FnMut(&mut Memory, &[f32]) -> Result<()> + 'a,
) {
    let raw = &bench.raw;
    case.raw(name, move |round| {
        let (source, (input, output)) = (round.source, &mut *plain.borrow_mut());
        let time = round.clock.time(|| {
            copy(input, source)?;
            raw.scale(input, output, FACTOR)?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(output, round.back)?;
        round.verified(time, FACTOR)
    });
}
