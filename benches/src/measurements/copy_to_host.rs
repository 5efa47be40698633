//! Copies a buffer on the GPU into a slice of the program's memory.

use super::measurement::{COPIES, LARGEST_MANAGED, Measurement};
use super::way::{Way, against_ways};
use crate::Bench;
use crate::measure::{Budget, Case, repeats};
use crate::peer::{CUDA_CPP, CUDARC, CUPY, TORCH};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use serde_json::json;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "copy_to_host",
    what: "Copies a buffer that lives on the GPU into a slice of ordinary (pageable) memory with populated pages. The contender \
           \"cudaMalloc to pinned\" copies its data only to pinned memory. The host waits for every cudaMemcpyAsync. \"Through own \
           pinned memory\" is a cudaMemcpyAsync to pinned memory, the wait, and a memcpy from there.",
    seconds: 32,
    run,
    notes,
};

const UNIFIED: &str = "cuda-um, unified buffer";
const DEVICE: &str = "cuda-um, device buffer";

/// The raw ways to ordinary memory: from device memory and from managed memory on the GPU.
const FROM_DEVICE: [(&str, Way); 3] = [
    ("cudaMemcpy, cudaMalloc to pageable", Way::Call),
    ("cudaMemcpyAsync, cudaMalloc to pageable", Way::InOrder),
    ("cudaMalloc through own pinned memory", Way::Pinned),
];
const FROM_MANAGED: [(&str, Way); 3] = [
    ("cudaMemcpy, managed to pageable", Way::Call),
    ("cudaMemcpyAsync, managed to pageable", Way::InOrder),
    ("managed through own pinned memory", Way::Pinned),
];

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let sizes = bench.settings.sizes(&COPIES);
    budget.split(sizes.len());
    for bytes in sizes {
        let mut case = Case::of_bytes(bytes);
        ours(&mut case, bench, bytes)?;
        for (kind, ways) in [(Kind::Device, FROM_DEVICE), (Kind::Managed, FROM_MANAGED)] {
            for (name, way) in ways {
                pageable(&mut case, bench, bytes, (name, kind, way))?;
            }
        }
        pinned(&mut case, bench, bytes)?;
        peers(&mut case, bench, bytes);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

fn ours<'a>(case: &mut Case<'a>, bench: &'a Bench, bytes: usize) -> Result<()> {
    let (len, repeats) = (bytes / 4, repeats(bytes));
    let (device, stream) = (&bench.device, &bench.stream);
    if bytes <= LARGEST_MANAGED {
        let mut unified = UnifiedBuffer::<f32>::zeroed(device, len)?;
        case.ours(UNIFIED, move |round| {
            unified.copy_from_host(round.source)?;
            unified.prefetch_on(device, stream)?.require()?;
            stream.synchronize()?;
            let back = &mut *round.back;
            let time = round
                .clock
                .time_each(repeats, || Ok(unified.copy_to_host(back)?))?;
            round.verified(time, 1.0)
        });
    }
    let mut plain = DeviceBuffer::<f32>::zeroed(device, len)?;
    case.ours(DEVICE, move |round| {
        plain.copy_from_host(round.source)?;
        let back = &mut *round.back;
        let time = round
            .clock
            .time_each(repeats, || Ok(plain.copy_to_host(back)?))?;
        round.verified(time, 1.0)
    });
    Ok(())
}

fn pageable<'a>(
    case: &mut Case<'a>,
    bench: &'a Bench,
    bytes: usize,
    (name, kind, way): (&str, Kind, Way),
) -> Result<()> {
    if !way.is_measured(kind, bytes) {
        return Ok(());
    }
    let (raw, len, repeats) = (&bench.raw, bytes / 4, repeats(bytes));
    let mut source = raw.allocate(kind, len)?;
    let mut pinned = match way {
        Way::Pinned => Some(raw.allocate(Kind::Pinned, len)?),
        _ => None,
    };
    case.raw(name, move |round| {
        raw.copy_from_slice(&mut source, round.source)?;
        if kind == Kind::Managed {
            raw.prefetch(&source, true)?;
            raw.synchronize()?;
        }
        let back = &mut *round.back;
        let time = round
            .clock
            .time_each(repeats, || match (way, &mut pinned) {
                (Way::InOrder, _) => raw.copy_to_slice_and_wait(&source, back),
                (_, Some(pinned)) => {
                    raw.copy(&source, pinned)?;
                    raw.synchronize()?;
                    back.copy_from_slice(pinned.host());
                    Ok(())
                }
                (_, None) => raw.copy_to_slice(&source, back),
            })?;
        round.verified(time, 1.0)
    });
    Ok(())
}

fn pinned<'a>(case: &mut Case<'a>, bench: &'a Bench, bytes: usize) -> Result<()> {
    let (raw, len, repeats) = (&bench.raw, bytes / 4, repeats(bytes));
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

/// Up to 256 MiB: each peer keeps several times the size in memory of the host.
fn peers(case: &mut Case<'_>, bench: &Bench, bytes: usize) {
    if bytes > LARGEST_MANAGED {
        return;
    }
    let repeats = repeats(bytes);
    let request = |pinned| json!({"do": "copy_to_host", "bytes": bytes, "repeats": repeats, "pinned": pinned});
    case.peer(bench, CUDA_CPP, "CUDA C++ cudaMemcpy", request(false));
    case.peer(bench, TORCH, "PyTorch copy_, pageable", request(false));
    case.peer(bench, TORCH, "PyTorch copy_, pinned", request(true));
    case.peer(bench, CUPY, "CuPy get", request(false));
    case.peer(bench, CUDARC, "cudarc memcpy_dtoh", request(false));
}

fn notes(cases: &[CaseReport]) -> Vec<String> {
    let what = "the best raw way to ordinary memory";
    let managed = against_ways(cases, UNIFIED, what, FROM_MANAGED);
    let device = against_ways(cases, DEVICE, what, FROM_DEVICE);
    managed.chain(device).collect()
}
