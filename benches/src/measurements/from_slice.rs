//! A new buffer with the contents of a slice.

use super::measurement::{COPIES, LARGEST_MANAGED, Measurement};
use crate::Bench;
use crate::measure::{Budget, Case, Round};
use crate::peer::{CUDARC, CUPY, TORCH};
use crate::raw::{Kind, Memory};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use serde_json::json;
use std::time::Duration;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "from_slice",
    what: "Makes a new buffer on the GPU with the contents of a slice of ordinary memory: allocation and copy are timed, freeing is \
           not. PyTorch and CuPy take memory from their caches, cudarc from the device's pool.",
    seconds: 30,
    run,
    notes: super::measurement::no_notes,
};

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let mut sizes = bench.settings.sizes(&COPIES);
    sizes.retain(|bytes| *bytes <= LARGEST_MANAGED);
    budget.split(sizes.len());
    for bytes in sizes {
        let len = bytes / 4;
        let (raw, device) = (&bench.raw, &bench.device);
        let mut case = Case::of_bytes(bytes);
        case.ours("cuda-um, unified buffer", |round| {
            let source = round.source;
            let make = || Ok(UnifiedBuffer::from_slice(device, source)?);
            sample(round, make, |buffer, back| {
                buffer.copy_to_host(back)?;
                Ok(buffer.close()?)
            })
        });
        case.ours("cuda-um, device buffer", |round| {
            let source = round.source;
            let make = || Ok(DeviceBuffer::from_slice(device, source)?);
            sample(round, make, |buffer, back| {
                buffer.copy_to_host(back)?;
                Ok(buffer.close()?)
            })
        });
        let take = |memory: Memory, back: &mut [f32]| {
            raw.copy_to_slice(&memory, back)?;
            memory.free()
        };
        case.raw("cudaMalloc, cudaMemcpy pageable", move |round| {
            let source = round.source;
            let make = || {
                let mut memory = raw.allocate(Kind::Device, len)?;
                raw.copy_from_slice(&mut memory, source)?;
                Ok(memory)
            };
            sample(round, make, take)
        });
        case.raw("cudaMallocManaged, CPU writes, prefetch", move |round| {
            let source = round.source;
            let make = || {
                let mut memory = raw.allocate(Kind::Managed, len)?;
                memory.host_mut().copy_from_slice(source);
                raw.prefetch(&memory, true)?;
                raw.synchronize()?;
                Ok(memory)
            };
            sample(round, make, take)
        });
        let request = json!({"do": "from_slice", "bytes": bytes});
        case.peer(bench, TORCH, "PyTorch from_numpy().cuda()", request.clone());
        case.peer(bench, CUPY, "CuPy asarray", request.clone());
        case.peer(bench, CUDARC, "cudarc clone_htod", request);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

/// Times `make`; `take` copies the contents to the result and frees the memory.
fn sample<B>(
    round: &mut Round<'_>,
    make: impl FnOnce() -> Result<B>,
    take: impl FnOnce(B, &mut [f32]) -> Result<()>,
) -> Result<Duration> {
    let start = round.clock.now();
    let made = make()?;
    let time = round.clock.now().saturating_sub(start);
    take(made, round.back)?;
    round.verified(time, 1.0)
}
