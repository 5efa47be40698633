//! Copies a slice of the program's memory into an existing buffer.

use super::measurement::{Measurement, SIZES};
use crate::Bench;
use crate::measure::{Case, repeats};
use crate::peer::{CUDA_CPP, CUDARC, CUPY, OXICUDA, TORCH};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use serde_json::json;

pub(super) const RETURNED: Measurement = Measurement {
    name: "copy_from_host",
    what: "Copies a slice of ordinary (pageable) memory into a buffer that lives on the GPU, until the call has returned and the \
           slice may be used again. The data may not have arrived then: cudaMemcpy does not wait for small ones. The pinned \
           contenders have their data in pinned memory, and the host waits for them, because the call returns at once.",
    run: |bench, cases| run(bench, cases, false),
    notes: super::measurement::no_notes,
};

pub(super) const ARRIVED: Measurement = Measurement {
    name: "copy_from_host_arrived",
    what: "The same, until the data have arrived: after each call the host waits for the device.",
    run: |bench, cases| run(bench, cases, true),
    notes: super::measurement::no_notes,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>, wait: bool) -> Result<()> {
    for bytes in bench.settings.sizes(&SIZES) {
        let (len, repeats) = (bytes / 4, repeats(bytes));
        let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
        let arrived = || {
            if wait {
                Ok(device.synchronize()?)
            } else {
                Ok(())
            }
        };
        let raw_arrived = || if wait { raw.wait_for_all() } else { Ok(()) };
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
            let time = round.clock.time_each(repeats, || {
                unified.copy_from_host(source)?;
                arrived()
            })?;
            device.synchronize()?;
            unified.copy_to_host(round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.ours("cuda-um, device buffer", |round| {
            let source = round.source;
            let time = round.clock.time_each(repeats, || {
                plain.copy_from_host(source)?;
                arrived()
            })?;
            device.synchronize()?;
            plain.copy_to_host(round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.raw("cudaMemcpy, pageable to cudaMalloc", |round| {
            let source = round.source;
            let time = round.clock.time_each(repeats, || {
                raw.copy_from_slice(&mut target, source)?;
                raw_arrived()
            })?;
            raw.wait_for_all()?;
            raw.copy_to_slice(&target, round.back)?;
            round.verify_back(1.0)?;
            Ok(time)
        });
        case.raw("cudaMemcpy, pageable to managed", |round| {
            raw.prefetch(&managed, true)?;
            raw.synchronize()?;
            let source = round.source;
            let time = round.clock.time_each(repeats, || {
                raw.copy_from_slice(&mut managed, source)?;
                raw_arrived()
            })?;
            raw.wait_for_all()?;
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
        let request = |pinned| json!({"do": "copy_from_host", "bytes": bytes, "repeats": repeats, "pinned": pinned, "wait": wait || pinned});
        case.peer(bench, CUDA_CPP, "CUDA C++ cudaMemcpy", request(false));
        case.peer(bench, TORCH, "PyTorch copy_, pageable", request(false));
        case.peer(bench, TORCH, "PyTorch copy_, pinned", request(true));
        case.peer(bench, CUPY, "CuPy set", request(false));
        case.peer(bench, CUDARC, "cudarc memcpy_htod", request(false));
        case.peer(bench, OXICUDA, "oxicuda copy_from_host", request(false));
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}
