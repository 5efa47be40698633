//! Measurements on the simulator: its virtual clock returns the model of the simulator.

use cuda_um::buffer::TransferOptions;
use cuda_um::cost::CostModel;
use cuda_um_sim::{Gpu, Leak, Sim};
use cuda_um_testkit::{Checked, machine, on_gpu, simulated, simulated_with};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use um_kernels::calibrate::{Calibration, Clock, NOT_ON_A_VIRTUAL_CLOCK, Plan, measure};

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

fn assert_gives_back(truth: &CostModel, found: &Calibration) {
    assert_eq!(found.notes, Vec::<String>::new());
    assert_eq!(found.measured, SHOWN);
    for ((key, truth), (_, found)) in truth.values().into_iter().zip(found.model.values()) {
        assert!(
            !SHOWN.contains(&key) || (found / truth - 1.0).abs() <= TOLERANCE,
            "{key}: {found} measured, {truth} is true"
        );
    }
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
        let mut steps = Vec::new();
        let plan = Plan::of(Plan::MACHINE.large, 1, 1);
        let tell = &mut |step| steps.push(step);
        let found = measure(&device, plan, &virtual_time(&sim), tell).unwrap();
        assert_gives_back(&truth, &found);
        let source = &found.model.source;
        for part in [device.name(), "PREDICTED", "copy_us", "others built in: "] {
            assert!(source.contains(part), "{source}");
        }
        assert_eq!(steps.len(), 7, "{steps:?}");
        // The other values are those of the built-in model for this GPU.
        let (major, minor) = device.capabilities().compute_capability;
        let built_in = CostModel::of_gpu(device.name(), (major, minor), false);
        for ((key, built_in), (_, value)) in built_in.values().into_iter().zip(found.model.values())
        {
            assert!(SHOWN.contains(&key) || value == built_in, "{key}");
        }
    }
}

#[test]
fn values_that_a_device_cannot_show_are_named() {
    let (sim, device, _stream) = simulated(Gpu::NoConcurrentAccess);
    let found = measure(&device, Plan::MACHINE, &virtual_time(&sim), &mut |_| {}).unwrap();
    assert!(found.measured.contains(&"copy_us"), "{:?}", found.measured);
    for key in NOT_ON_A_VIRTUAL_CLOCK {
        assert!(!found.measured.contains(key), "{key}");
    }
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let found = measure(&device, Plan::MACHINE, &virtual_time(&sim), &mut |_| {}).unwrap();
    assert_eq!(found.measured, ["copy_us", "pinned_bytes_per_s"]);
    let noted = found
        .notes
        .iter()
        .map(|note| note.split_once(" was not measured: "));
    let keys: Vec<_> = noted.map(|note| note.unwrap().0).collect();
    assert_eq!(
        keys,
        [
            "kernel_bytes_per_s",
            "kernel_us",
            "remote_bytes_per_s",
            "remote_us",
            "copy_managed_us"
        ]
    );
}

/// The most bytes of each kind of memory that were live at a time of the clock, and the clock.
fn watching(sim: &Checked) -> (Arc<Mutex<BTreeMap<&'static str, usize>>>, Clock) {
    let most = Arc::new(Mutex::new(BTreeMap::new()));
    let (sim, seen, start): (Sim, _, _) = (Sim::clone(sim), Arc::clone(&most), Instant::now());
    let now = move || {
        let mut live = BTreeMap::<_, usize>::new();
        for leak in sim.leaks() {
            if let Leak::Memory { bytes, kind, .. } = leak {
                *live.entry(kind).or_default() += bytes;
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
    let plan = Plan::of(Plan::MACHINE.large, 1, 1);
    // As on a machine with 16 cores.
    device.set_transfer_options(TransferOptions::default().threads(12).ring_bytes(48 << 20));
    measure(&device, plan, &clock, &mut |_| {}).unwrap();
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
    let found = measure(&device, Plan::MACHINE, &Clock::wall(), &mut |_| {}).unwrap();
    let took = start.elapsed();
    println!("{took:?}: {}, {:?}", found.model.to_json(), found.notes);
    assert!(took < Duration::from_secs(1), "{took:?}");
    found.model.check().unwrap();
    for key in NOT_ON_A_VIRTUAL_CLOCK {
        assert!(found.measured.contains(key), "{key}: {:?}", found.notes);
    }
}
