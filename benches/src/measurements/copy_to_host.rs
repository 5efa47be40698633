//! Copies a buffer on the GPU into a slice of the program's memory.

use super::measurement::{Measurement, SIZES};
use crate::Bench;
use crate::measure::{Case, repeats};
use crate::peer::{CUDA_CPP, CUDARC, CUPY, OXICUDA, TORCH};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use serde_json::json;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "copy_to_host",
    what: "Copies a buffer that lives on the GPU into a slice of ordinary (pageable) memory with populated pages. The pinned \
           contender copies its data only to pinned memory.",
    run,
    notes: super::measurement::no_notes,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    for bytes in bench.settings.sizes(&SIZES) {
        let mut case = Case::of_bytes(bytes);
        ours(&mut case, bench, bytes)?;
        raw(&mut case, bench, bytes)?;
        let repeats = repeats(bytes);
        let request = |pinned| json!({"do": "copy_to_host", "bytes": bytes, "repeats": repeats, "pinned": pinned});
        case.peer(bench, CUDA_CPP, "CUDA C++ cudaMemcpy", request(false));
        case.peer(bench, TORCH, "PyTorch copy_, pageable", request(false));
        case.peer(bench, TORCH, "PyTorch copy_, pinned", request(true));
        case.peer(bench, CUPY, "CuPy get", request(false));
        case.peer(bench, CUDARC, "cudarc memcpy_dtoh", request(false));
        case.peer(bench, OXICUDA, "oxicuda copy_to_host", request(false));
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

fn ours<'a>(case: &mut Case<'a>, bench: &'a Bench, bytes: usize) -> Result<()> {
    let (len, repeats) = (bytes / 4, repeats(bytes));
    let (device, stream) = (&bench.device, &bench.stream);
    let mut unified = UnifiedBuffer::<f32>::zeroed(device, len)?;
    let mut plain = DeviceBuffer::<f32>::zeroed(device, len)?;
    case.ours("cuda-um, unified buffer", move |round| {
        unified.copy_from_host(round.source)?;
        unified.prefetch(device, stream)?;
        stream.synchronize()?;
        let back = &mut *round.back;
        let time = round
            .clock
            .time_each(repeats, || Ok(unified.copy_to_host(back)?))?;
        round.verified(time, 1.0)
    });
    case.ours("cuda-um, device buffer", move |round| {
        plain.copy_from_host(round.source)?;
        let back = &mut *round.back;
        let time = round
            .clock
            .time_each(repeats, || Ok(plain.copy_to_host(back)?))?;
        round.verified(time, 1.0)
    });
    Ok(())
}

fn raw<'a>(case: &mut Case<'a>, bench: &'a Bench, bytes: usize) -> Result<()> {
    let (len, repeats) = (bytes / 4, repeats(bytes));
    let raw = &bench.raw;
    for (name, kind) in [
        ("cudaMemcpy, cudaMalloc to pageable", Kind::Device),
        ("cudaMemcpy, managed to pageable", Kind::Managed),
    ] {
        let mut source = raw.allocate(kind, len)?;
        case.raw(name, move |round| {
            raw.copy_from_slice(&mut source, round.source)?;
            if kind == Kind::Managed {
                raw.prefetch(&source, true)?;
                raw.synchronize()?;
            }
            let back = &mut *round.back;
            let time = round
                .clock
                .time_each(repeats, || raw.copy_to_slice(&source, back))?;
            round.verified(time, 1.0)
        });
    }
    let mut source = raw.allocate(Kind::Device, len)?;
    let mut pinned = raw.allocate(Kind::Pinned, len)?;
    case.raw("cudaMemcpyAsync, cudaMalloc to pinned", move |round| {
        raw.copy_from_slice(&mut source, round.source)?;
        pinned.host_mut().fill(f32::NAN);
        let time = round.clock.time_each(repeats, || {
            raw.copy(&source, &mut pinned)?;
            raw.synchronize()
        })?;
        round.verify(pinned.host(), 1.0)?;
        Ok(time)
    });
    Ok(())
}
