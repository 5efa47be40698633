//! Two GPUs: copies between them, and rows that are uploaded to both.

use super::measurement::{MIB, Measurement, no_notes};
use crate::Bench;
use crate::clock::Clock;
use crate::measure::{Budget, Case, size_text};
use crate::raw::Kind;
use crate::report::{self, CaseReport};
use anyhow::Result;
use cuda_um::{Device, DeviceBuffer, Devices};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, RuntimeChoice, Sharded, Split};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "devices",
    what: "Two GPUs: a buffer of the first is copied into a buffer of the second, with peer access if the GPUs have it, and the host waits; \
           a slice of ordinary memory is uploaded to rows that are split over both, or to rows of the first alone.",
    seconds: 20,
    run,
    notes: no_notes,
};

const SIZES: [usize; 3] = [16 * MIB, 64 * MIB, 256 * MIB];
/// Elements of a row.
const ROW: usize = 64;

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    if bench.runtime.device_count()? < 2 {
        let mut case = Case::new("two GPUs", 0, 0);
        let why = "needs two GPUs, and this machine has one";
        case.skipped(report::Kind::Ours, "cuda-um", why);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
        return Ok(());
    }
    let devices = Devices::of([bench.device.clone(), bench.runtime.device(1)?])?;
    let backends = backends(bench)?;
    let sizes = bench.settings.sizes(&SIZES);
    budget.split(2 * sizes.len());
    devices.enable_peer_access()?;
    for &bytes in &sizes {
        cases.push(peer_copy(bench, &devices[1], bytes, budget)?);
    }
    for &bytes in &sizes {
        cases.push(upload(bench, &backends, bytes, budget)?);
    }
    Ok(())
}

fn peer_copy(bench: &Bench, far: &Device, bytes: usize, budget: &mut Budget) -> Result<CaseReport> {
    let (raw, len) = (&bench.raw, bytes / 4);
    let label = format!("peer copy, {}", size_text(bytes));
    let mut case = Case::new(label, bytes, len);
    let mut source = DeviceBuffer::<f32>::zeroed(&bench.device, len)?;
    let mut target = DeviceBuffer::<f32>::zeroed(far, len)?;
    let stream = far.create_stream()?;
    case.ours("cuda-um, Stream::copy", move |round| {
        source.copy_from_host(round.source)?;
        bench.device.synchronize()?;
        let time = round.clock.time(|| {
            stream.copy(&source, &mut target)?;
            Ok(stream.synchronize()?)
        })?;
        target.copy_to_host(round.back)?;
        round.verified(time, 1.0)
    });
    let mut near = raw.allocate(Kind::Device, len)?;
    let mut there = raw.allocate_on(1, len)?;
    case.raw("cudaMemcpyPeerAsync", move |round| {
        raw.copy_from_slice(&mut near, round.source)?;
        raw.wait_for_all()?;
        let time = round.clock.time(|| {
            raw.copy_to_peer(&near, &mut there, 1)?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(&there, round.back)?;
        round.verified(time, 1.0)
    });
    Ok(case.run(&bench.clock, &bench.settings, budget))
}

/// A backend for each of two devices.
fn backends(bench: &Bench) -> Result<[CudaBackend; 2]> {
    let config = match &bench.clock {
        Clock::Simulated(sim) => CudaBackendConfig::default().simulator(sim.clone()),
        Clock::Wall(_) => CudaBackendConfig::default().runtime(RuntimeChoice::Cuda),
    };
    let first = CudaBackend::initialize_blocking(config)?;
    let second = first.sibling(1)?;
    Ok([first, second])
}

fn upload(
    bench: &Bench,
    backends: &[CudaBackend; 2],
    bytes: usize,
    budget: &mut Budget,
) -> Result<CaseReport> {
    let (raw, len) = (&bench.raw, bytes / 4);
    let label = format!("upload, {}", size_text(bytes));
    let mut case = Case::new(label, bytes, len);
    for (name, devices) in [
        ("um-backend, Sharded over both", &backends[..]),
        ("um-backend, Sharded over one", &backends[..1]),
    ] {
        let (kind, rows) = (BufferKind::Cuda, len / ROW);
        let mut target = Sharded::<f32>::zeroed(devices, kind, rows, ROW, Split::Even)?;
        case.ours(name, move |round| {
            let time = round.clock.time(|| {
                target.copy_from_host(round.source)?;
                devices
                    .iter()
                    .try_for_each(|device| Ok(device.synchronize()?))
            })?;
            round.verify(&target.to_vec()?, 1.0)?;
            Ok(time)
        });
    }
    let mut target = raw.allocate(Kind::Device, len)?;
    case.raw("cudaMemcpy, pageable to one", move |round| {
        let time = round.clock.time(|| {
            raw.copy_from_slice(&mut target, round.source)?;
            raw.wait_for_all()
        })?;
        raw.copy_to_slice(&target, round.back)?;
        round.verified(time, 1.0)
    });
    Ok(case.run(&bench.clock, &bench.settings, budget))
}
