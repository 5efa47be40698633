//! The calibration, on the simulator: its virtual clock gives back the model that it was built with.

use cuda_um_cost::{CostModel, Figure};
use cuda_um_sim::{Builder, Gpu, Sim};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use um_benches::calibrate::{NOT_ON_A_VIRTUAL_CLOCK, Plan, calibrate};
use um_benches::clock::Clock;

/// What is measured lies within so much of the truth: the clock counts whole nanoseconds, and some figures are differences.
const TOLERANCE: f64 = 0.02;

const PLAN: Plan = Plan {
    large: 16 << 20,
    rounds: 1,
    small_rounds: 1,
};

fn measured(builder: Builder) -> CostModel {
    um_kernels::sim::register();
    let sim = builder.build().unwrap();
    let clock = Clock::Simulated(sim.clone());
    let found = calibrate(&sim.table(), clock, PLAN, &mut |_| {}).unwrap();
    assert_eq!(found.notes, Vec::<String>::new());
    found.model
}

/// Every figure that the clock expresses is that of the truth, and no other was touched.
fn assert_gives_back(truth: &CostModel, found: &CostModel) {
    let assumed: BTreeSet<_> = found.assumed().collect();
    assert_eq!(assumed, NOT_ON_A_VIRTUAL_CLOCK.iter().copied().collect());
    let figures = truth.figures().into_iter().zip(found.figures());
    for ((name, truth), (_, found)) in figures.filter(|((name, _), _)| !assumed.contains(name)) {
        let ratio = found.number() / truth.number();
        assert!(
            (ratio - 1.0).abs() <= TOLERANCE,
            "{name}: {found:?} measured, {truth:?} is true"
        );
    }
}

#[test]
fn the_built_in_model_comes_back() {
    assert_gives_back(&CostModel::h200(), &measured(Sim::builder()));
}

#[test]
fn another_model_comes_back_too() {
    let mut truth = CostModel::pascal();
    // Every figure another one than any built-in model has, each by another factor.
    for (at, (name, figure)) in CostModel::pascal().figures().into_iter().enumerate() {
        let factor = 1.3 + 0.01 * at as f64;
        let other = match figure {
            Figure::Time(time) => {
                let nanoseconds = time.as_nanos() as f64 * factor;
                Figure::Time(Duration::from_nanos(nanoseconds as u64))
            }
            Figure::Rate(rate) => Figure::Rate(rate * factor),
        };
        truth.set(name, other).unwrap();
    }
    let builder = Sim::builder().gpu(Gpu::Pascal).cost_model(truth.clone());
    assert_gives_back(&truth, &measured(builder));
}

#[test]
fn what_a_device_cannot_show_is_named() {
    um_kernels::sim::register();
    let sim = Sim::builder().gpu(Gpu::NoConcurrentAccess).build().unwrap();
    let clock = Clock::Simulated(sim.clone());
    let found = calibrate(&sim.table(), clock, PLAN, &mut |_| {}).unwrap();
    for name in ["prefetch", "cpu_fault", "map_rate"] {
        assert!(found.model.assumed().any(|one| one == name), "{name}");
        assert!(
            found.notes.iter().any(|note| note.starts_with(name)),
            "{name}: {:?}",
            found.notes
        );
    }
    assert!(found.model.assumed().all(|name| name != "launch"));
}

/// Where cargo built it, or in the bundle's folder.
fn program() -> Command {
    Command::new(match std::env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join("um_calibrate"),
        None => env!("CARGO_BIN_EXE_um_calibrate").into(),
    })
}

#[test]
fn the_program_writes_what_the_library_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calibration.json");
    let ran = program()
        .args(["--sim", "--quick", "--out"])
        .arg(&file)
        .env_remove("CUDA_UM_SIM_GPU")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    assert!(
        told.contains("not measured, built-in values: device_to_pageable"),
        "{told}"
    );
    let model = CostModel::from_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(model.name, "Simulated NVIDIA H200");
    assert!(model.source.contains("PREDICTED"), "{}", model.source);
    assert_gives_back(&CostModel::h200(), &model);
}

#[test]
fn without_a_runtime_it_says_so_and_fails() {
    let ran = program()
        .env("CUDA_UM_CUDART", "/nowhere/libcudart.so")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(told.contains("no CUDA runtime"), "{told}");
    assert!(ran.stdout.is_empty());
}
