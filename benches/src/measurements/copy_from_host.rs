//! A slice of the program's memory into a buffer that is there.

use super::{Measurement, SIZES};
use crate::Bench;
use crate::measure::{Case, repeats};
use crate::peer::{CUPY, TORCH};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use serde_json::json;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "copy_from_host",
    what: "Copies a slice of ordinary (pageable) memory into a buffer that lives on the GPU, and waits. The pinned contender finds \
           its data in pinned memory already. Raw cudaMemcpy may return before a small copy has arrived; the others wait.",
    run,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    for bytes in bench.settings.sizes(&SIZES) {
        let (len, repeats) = (bytes / 4, repeats(bytes));
        let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
        let mut unified = UnifiedBuffer::<f32>::zeroed(device, len)?;
        let mut plain = DeviceBuffer::<f32>::zeroed(device, len)?;
        let mut target = raw.allocate(Kind::Device, len)?;
        let mut pinned = raw.allocate(Kind::Pinned, len)?;
        let mut pinned_target = raw.allocate(Kind::Device, len)?;
        let mut managed = raw.allocate(Kind::Managed, len)?;
        let mut case = Case::of_bytes(bytes);
        case.ours("cuda-um, unified buffer", |round| {
            unified.prefetch(device, stream)?;
            stream.synchronize()?;
            let source = round.source;
            let time = round
                .clock
                .time_each(repeats, || Ok(unified.copy_from_host(source)?))?;
            unified.copy_to_host(round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.ours("cuda-um, device buffer", |round| {
            let source = round.source;
            let time = round
                .clock
                .time_each(repeats, || Ok(plain.copy_from_host(source)?))?;
            plain.copy_to_host(round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.raw("cudaMemcpy, pageable to cudaMalloc", |round| {
            let source = round.source;
            let time = round
                .clock
                .time_each(repeats, || raw.copy_from_slice(&mut target, source))?;
            raw.copy_to_slice(&target, round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.raw("cudaMemcpy, pageable to managed", |round| {
            raw.prefetch(&managed, true)?;
            raw.synchronize()?;
            let source = round.source;
            let time = round
                .clock
                .time_each(repeats, || raw.copy_from_slice(&mut managed, source))?;
            raw.copy_to_slice(&managed, round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.raw("cudaMemcpyAsync, pinned to cudaMalloc", |round| {
            pinned.host_mut().copy_from_slice(round.source);
            let time = round.clock.time_each(repeats, || {
                raw.copy(&pinned, &mut pinned_target)?;
                raw.synchronize()
            })?;
            raw.copy_to_slice(&pinned_target, round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        let request = |pinned| json!({"do": "copy_from_host", "bytes": bytes, "repeats": repeats, "pinned": pinned});
        case.peer(bench, TORCH, "PyTorch copy_, pageable", request(false));
        case.peer(bench, TORCH, "PyTorch copy_, pinned", request(true));
        case.peer(bench, CUPY, "CuPy set", request(false));
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}
