//! Copies a slice of the program's memory into an existing buffer.

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

pub(super) const RETURNED: Measurement = Measurement {
    name: "copy_from_host",
    what: "Copies a slice of ordinary (pageable) memory into a buffer that lives on the GPU, until the call has returned and the \
           slice may be used again. The data may not have arrived then: cudaMemcpy does not wait for small ones. The contenders \
           \"pinned\" have their data in pinned memory. The host waits for every cudaMemcpyAsync. \"Through own pinned memory\" is a \
           memcpy into pinned memory, a cudaMemcpyAsync from there, and the wait.",
    seconds: 32,
    run: |bench, budget, cases| run(bench, budget, cases, false),
    notes,
};

pub(super) const ARRIVED: Measurement = Measurement {
    name: "copy_from_host_arrived",
    what: "The same, until the data have arrived: after each call the host waits for the stream of the copy.",
    seconds: 32,
    run: |bench, budget, cases| run(bench, budget, cases, true),
    notes,
};

const UNIFIED: &str = "cuda-um, unified buffer";
const DEVICE: &str = "cuda-um, device buffer";

/// The raw ways from ordinary memory: to device memory and to managed memory on the GPU.
const TO_DEVICE: [(&str, Way); 3] = [
    ("cudaMemcpy, pageable to cudaMalloc", Way::Call),
    ("cudaMemcpyAsync, pageable to cudaMalloc", Way::InOrder),
    ("through own pinned memory to cudaMalloc", Way::Pinned),
];
const TO_MANAGED: [(&str, Way); 3] = [
    ("cudaMemcpy, pageable to managed", Way::Call),
    ("cudaMemcpyAsync, pageable to managed", Way::InOrder),
    ("through own pinned memory to managed", Way::Pinned),
];

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>, wait: bool) -> Result<()> {
    let sizes = bench.settings.sizes(&COPIES);
    budget.split(sizes.len());
    for bytes in sizes {
        let mut case = Case::of_bytes(bytes);
        let copies = Copies {
            bench,
            bytes,
            repeats: repeats(bytes),
            wait,
        };
        copies.ours(&mut case)?;
        for (kind, ways) in [(Kind::Device, TO_DEVICE), (Kind::Managed, TO_MANAGED)] {
            for (name, way) in ways {
                copies.pageable(&mut case, name, kind, way)?;
            }
        }
        copies.pinned(&mut case)?;
        copies.peers(&mut case);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

/// The contenders of one size.
#[derive(Clone, Copy)]
struct Copies<'a> {
    bench: &'a Bench,
    bytes: usize,
    repeats: usize,
    /// Wait for the stream of the copy after each call.
    wait: bool,
}

impl<'a> Copies<'a> {
    fn len(self) -> usize {
        self.bytes / 4
    }

    fn arrived(self) -> Result<()> {
        match self.wait {
            true => Ok(self.bench.device.default_stream()?.synchronize()?),
            false => Ok(()),
        }
    }

    fn ours(self, case: &mut Case<'a>) -> Result<()> {
        let (device, stream) = (&self.bench.device, &self.bench.stream);
        if self.bytes <= LARGEST_MANAGED {
            let mut unified = UnifiedBuffer::<f32>::zeroed(device, self.len())?;
            case.ours(UNIFIED, move |round| {
                unified.prefetch_on(device, stream)?.require()?;
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
        }
        let mut plain = DeviceBuffer::<f32>::zeroed(device, self.len())?;
        case.ours(DEVICE, move |round| {
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

    fn pageable(self, case: &mut Case<'a>, name: &str, kind: Kind, way: Way) -> Result<()> {
        if !way.is_measured(kind, self.bytes) {
            return Ok(());
        }
        let raw = &self.bench.raw;
        let mut target = raw.allocate(kind, self.len())?;
        let mut pinned = match way {
            Way::Pinned => Some(raw.allocate(Kind::Pinned, self.len())?),
            _ => None,
        };
        case.raw(name, move |round| {
            if kind == Kind::Managed {
                raw.prefetch(&target, true)?;
                raw.synchronize()?;
            }
            let source = round.source;
            let time = round
                .clock
                .time_each(self.repeats, || match (way, &mut pinned) {
                    (Way::InOrder, _) => raw.copy_from_slice_and_wait(&mut target, source),
                    (_, Some(pinned)) => {
                        pinned.host_mut().copy_from_slice(source);
                        raw.copy(pinned, &mut target)?;
                        raw.synchronize()
                    }
                    (_, None) => {
                        raw.copy_from_slice(&mut target, source)?;
                        match self.wait {
                            true => raw.wait_for_all(),
                            false => Ok(()),
                        }
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

    /// Up to 256 MiB: each peer keeps several times the size in memory of the host.
    fn peers(self, case: &mut Case<'a>) {
        if self.bytes > LARGEST_MANAGED {
            return;
        }
        for (peer, name, pinned) in [
            (CUDA_CPP, "CUDA C++ cudaMemcpy", false),
            (TORCH, "PyTorch copy_, pageable", false),
            (TORCH, "PyTorch copy_, pinned", true),
            (CUPY, "CuPy set", false),
            (CUDARC, "cudarc memcpy_htod", false),
        ] {
            let request = json!({
                "do": "copy_from_host", "bytes": self.bytes, "repeats": self.repeats, "pinned": pinned, "wait": self.wait || pinned,
            });
            case.peer(self.bench, peer, name, request);
        }
    }
}

fn notes(cases: &[CaseReport]) -> Vec<String> {
    let what = "the best raw way from ordinary memory";
    let managed = against_ways(cases, UNIFIED, what, TO_MANAGED);
    let device = against_ways(cases, DEVICE, what, TO_DEVICE);
    managed.chain(device).collect()
}
