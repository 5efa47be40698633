//! Measurements on the simulator: its virtual clock returns the model of the simulator.

use cuda_um::Device;
use cuda_um::buffer::TransferOptions;
use cuda_um::cost::CostModel;
use cuda_um_sim::{Gpu, Leak, Sim};
use cuda_um_testkit::{Checked, machine, on_gpu, simulated, simulated_with};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use um_kernels::calibrate::{Cache, Clock};

/// Allowed relative error of a measured value: the clock counts whole nanoseconds, and some values are differences.
const TOLERANCE: f64 = 0.02;

/// The values that a virtual clock shows.
const SHOWN: [&str; 7] = [
    "copy_managed_us",
    "copy_us",
    "kernel_bytes_per_s",
    "kernel_us",
    "pinned_bytes_per_s",
    "remote_bytes_per_s",
    "remote_us",
];

fn virtual_time(sim: &Checked) -> Clock {
    let sim: Sim = Sim::clone(sim);
    Clock::virtual_time(move || sim.now())
}

/// The values that a virtual clock does not show: the host's own work.
const HOST: [&str; 5] = [
    "thread_wake_us",
    "staged_us",
    "host_copy_bytes_per_s",
    "staged_to_device_bytes_per_s",
    "staged_to_host_bytes_per_s",
];

fn measure(device: &Device, clock: &Clock) -> CostModel {
    let folder = tempfile::tempdir().unwrap();
    Cache::at(folder.path()).measure(device, clock).unwrap()
}

/// The keys of the measured values, which the source of a model names.
fn measured(model: &CostModel) -> Vec<&str> {
    let (begin, _) = model.source.split_once("; others built in").unwrap();
    begin.rsplit(": ").next().unwrap().split(", ").collect()
}

#[test]
fn the_simulators_model_comes_back() {
    for gpu in [Gpu::H200, Gpu::Pascal] {
        let mut truth = CostModel::h200();
        // Every value differs from all built-in models, each by another factor.
        for (at, (key, value)) in CostModel::h200().values().into_iter().enumerate() {
            truth.set(key, value * (1.3 + 0.01 * at as f64)).unwrap();
        }
        let model = truth.clone();
        let (sim, device, _stream) = simulated_with(|builder| builder.gpu(gpu).cost_model(model));
        let found = measure(&device, &virtual_time(&sim));
        assert_eq!(measured(&found), SHOWN);
        for part in [device.name(), "PREDICTED"] {
            assert!(found.source.contains(part), "{}", found.source);
        }
        // The other values are those of the built-in model for this GPU.
        let capability = device.capabilities().compute_capability;
        let built_in = CostModel::of_gpu(device.name(), capability, false);
        let values = found.values().into_iter().zip(truth.values());
        for (((key, found), (_, truth)), (_, built_in)) in values.zip(built_in.values()) {
            match SHOWN.contains(&key) {
                true => assert!(
                    (found / truth - 1.0).abs() <= TOLERANCE,
                    "{key}: {found}, {truth}"
                ),
                false => assert_eq!(found, built_in, "{key}"),
            }
        }
    }
}

#[test]
fn values_that_a_device_cannot_show_stay_built_in() {
    let (sim, device, _stream) = simulated(Gpu::NoConcurrentAccess);
    let found = measure(&device, &virtual_time(&sim));
    let keys = measured(&found);
    assert!(keys.contains(&"copy_us"), "{keys:?}");
    assert!(!HOST.iter().any(|key| keys.contains(key)), "{keys:?}");
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let found = measure(&device, &virtual_time(&sim));
    assert_eq!(measured(&found), ["copy_us", "pinned_bytes_per_s"]);
}

/// The most bytes of each kind of memory that were live at a time of the clock, and the clock.
fn watching(sim: &Checked) -> (Arc<Mutex<BTreeMap<&'static str, usize>>>, Clock) {
    let most = Arc::new(Mutex::new(BTreeMap::new()));
    let (sim, seen, start): (Sim, _, _) = (Sim::clone(sim), Arc::clone(&most), Instant::now());
    let now = move || {
        let mut live = BTreeMap::<_, usize>::new();
        for leak in sim.leaks() {
            match leak {
                Leak::Memory { bytes, kind, .. } => *live.entry(kind).or_default() += bytes,
                // Large pinned memory is registered.
                Leak::Registration { bytes, .. } => {
                    *live.entry("cudaHostAlloc").or_default() += bytes;
                }
                _ => {}
            }
        }
        for (kind, bytes) in live {
            let mut seen = seen.lock().unwrap();
            let most = seen.entry(kind).or_default();
            *most = bytes.max(*most);
        }
        start.elapsed()
    };
    (most, Clock::of(now))
}

#[test]
fn a_measurement_needs_less_than_64_mib_of_each_memory() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let (most, clock) = watching(&sim);
    // As on a machine with 16 cores.
    device.set_transfer_options(TransferOptions::default().threads(12).ring_bytes(48 << 20));
    measure(&device, &clock);
    let most = most.lock().unwrap();
    let kinds: Vec<_> = most.keys().copied().collect();
    assert_eq!(kinds, ["cudaHostAlloc", "cudaMalloc", "cudaMallocManaged"]);
    for (kind, bytes) in most.iter() {
        assert!((16 << 20..64 << 20).contains(bytes), "{kind}: {bytes}");
    }
}

#[test]
fn a_gpu_is_measured_within_a_second() {
    if !on_gpu() {
        eprintln!("NOT RUN: the limit is for a GPU");
        return;
    }
    let (_sim, runtime) = machine();
    let device = runtime.device(0).unwrap();
    let start = Instant::now();
    let found = measure(&device, &Clock::wall());
    let took = start.elapsed();
    println!("{took:?}: {}", found.to_json());
    assert!(took < Duration::from_secs(1), "{took:?}");
    found.check().unwrap();
    for key in HOST {
        assert!(measured(&found).contains(&key), "{key}: {}", found.source);
    }
}
