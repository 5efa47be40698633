//! A new buffer with the contents of a slice.

use super::measurement::{Measurement, SIZES};
use crate::Bench;
use crate::measure::Case;
use crate::peer::{CUDARC, CUPY, OXICUDA, TORCH};
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::UnifiedBuffer;
use serde_json::json;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "from_slice",
    what: "Makes a new buffer on the GPU with the contents of a slice of ordinary memory: allocation and copy are timed, freeing is \
           not. PyTorch and CuPy take memory from their caches, cudarc from the device's pool.",
    run,
    notes: super::measurement::no_notes,
};

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    for bytes in bench.settings.sizes(&SIZES) {
        let len = bytes / 4;
        let (raw, device) = (&bench.raw, &bench.device);
        let mut case = Case::of_bytes(bytes);
        case.ours("cuda-um, unified buffer", |round| {
            let (source, mut made) = (round.source, None);
            let time = round.clock.time(|| {
                made = Some(UnifiedBuffer::from_slice(device, source)?);
                Ok(())
            })?;
            if let Some(buffer) = made {
                buffer.copy_to_host(round.back)?;
                buffer.close()?;
            }
            round.verified(time, 1.0)
        });
        case.raw("cudaMalloc, cudaMemcpy pageable", |round| {
            let (source, mut made) = (round.source, None);
            let time = round.clock.time(|| {
                let memory = made.insert(raw.allocate(Kind::Device, len)?);
                raw.copy_from_slice(memory, source)
            })?;
            if let Some(memory) = made {
                raw.copy_to_slice(&memory, round.back)?;
                memory.free()?;
            }
            round.verified(time, 1.0)
        });
        case.raw("cudaMallocManaged, CPU writes, prefetch", |round| {
            let (source, mut made) = (round.source, None);
            let time = round.clock.time(|| {
                let memory = made.insert(raw.allocate(Kind::Managed, len)?);
                memory.host_mut().copy_from_slice(source);
                raw.prefetch(memory, true)?;
                raw.synchronize()
            })?;
            if let Some(memory) = made {
                raw.copy_to_slice(&memory, round.back)?;
                memory.free()?;
            }
            round.verified(time, 1.0)
        });
        let request = json!({"do": "from_slice", "bytes": bytes});
        case.peer(bench, TORCH, "PyTorch from_numpy().cuda()", request.clone());
        case.peer(bench, CUPY, "CuPy asarray", request.clone());
        case.peer(bench, CUDARC, "cudarc clone_htod", request.clone());
        case.peer(bench, OXICUDA, "oxicuda from_host", request);
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}
