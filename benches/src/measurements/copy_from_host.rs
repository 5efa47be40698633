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
        let mut case = Case::of_bytes(bytes);
        let copies = Copies {
            bench,
            bytes,
            repeats: repeats(bytes),
            wait,
        };
        copies.ours(&mut case)?;
        copies.pageable(&mut case, "pageable to cudaMalloc", Kind::Device)?;
        copies.pageable(&mut case, "pageable to managed", Kind::Managed)?;
        copies.pinned(&mut case)?;
        copies.peers(&mut case);
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

/// The contenders of one size.
#[derive(Clone, Copy)]
struct Copies<'a> {
    bench: &'a Bench,
    bytes: usize,
    repeats: usize,
    /// Wait for the device after each call.
    wait: bool,
}

impl<'a> Copies<'a> {
    fn len(self) -> usize {
        self.bytes / 4
    }

    fn arrived(self) -> Result<()> {
        match self.wait {
            true => Ok(self.bench.device.synchronize()?),
            false => Ok(()),
        }
    }

    fn ours(self, case: &mut Case<'a>) -> Result<()> {
        let (device, stream) = (&self.bench.device, &self.bench.stream);
        let mut unified = UnifiedBuffer::<f32>::zeroed(device, self.len())?;
        let mut plain = DeviceBuffer::<f32>::zeroed(device, self.len())?;
        case.ours("cuda-um, unified buffer", move |round| {
            unified.prefetch(device, stream)?;
            stream.synchronize()?;
            let source = round.source;
            let time = round.clock.time_each(self.repeats, || {
                unified.copy_from_host(source)?;
                self.arrived()
            })?;
            device.synchronize()?;
            unified.copy_to_host(round.back)?;
            round.verified(time, 1.0)
        });
        case.ours("cuda-um, device buffer", move |round| {
            let source = round.source;
            let time = round.clock.time_each(self.repeats, || {
                plain.copy_from_host(source)?;
                self.arrived()
            })?;
            device.synchronize()?;
            plain.copy_to_host(round.back)?;
            round.verified(time, 1.0)
        });
        Ok(())
    }

    fn pageable(self, case: &mut Case<'a>, name: &str, kind: Kind) -> Result<()> {
        let raw = &self.bench.raw;
        let mut target = raw.allocate(kind, self.len())?;
        case.raw(&format!("cudaMemcpy, {name}"), move |round| {
            if kind == Kind::Managed {
                raw.prefetch(&target, true)?;
                raw.synchronize()?;
            }
            let source = round.source;
            let time = round.clock.time_each(self.repeats, || {
                raw.copy_from_slice(&mut target, source)?;
                match self.wait {
                    true => raw.wait_for_all(),
                    false => Ok(()),
                }
            })?;
            raw.wait_for_all()?;
            raw.copy_to_slice(&target, round.back)?;
            round.verified(time, 1.0)
        });
        Ok(())
    }

    fn pinned(self, case: &mut Case<'a>) -> Result<()> {
        let raw = &self.bench.raw;
        let mut pinned = raw.allocate(Kind::Pinned, self.len())?;
        let mut target = raw.allocate(Kind::Device, self.len())?;
        case.raw("cudaMemcpyAsync, pinned to cudaMalloc", move |round| {
            pinned.host_mut().copy_from_slice(round.source);
            let time = round.clock.time_each(self.repeats, || {
                raw.copy(&pinned, &mut target)?;
                raw.synchronize()
            })?;
            raw.copy_to_slice(&target, round.back)?;
            round.verified(time, 1.0)
        });
        Ok(())
    }

    fn peers(self, case: &mut Case<'a>) {
        for (peer, name, pinned) in [
            (CUDA_CPP, "CUDA C++ cudaMemcpy", false),
            (TORCH, "PyTorch copy_, pageable", false),
            (TORCH, "PyTorch copy_, pinned", true),
            (CUPY, "CuPy set", false),
            (CUDARC, "cudarc memcpy_htod", false),
            (OXICUDA, "oxicuda copy_from_host", false),
        ] {
            let request = json!({
                "do": "copy_from_host", "bytes": self.bytes, "repeats": self.repeats, "pinned": pinned, "wait": self.wait || pinned,
            });
            case.peer(self.bench, peer, name, request);
        }
    }
}
