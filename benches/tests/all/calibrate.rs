//! The calibration on the simulator: its virtual clock returns the model of the simulator.

use crate::program;
use cuda_um_cost::CostModel;
use cuda_um_sim::{Builder, Gpu, Sim};
use std::collections::BTreeSet;
use um_benches::calibrate::{Calibration, NEVER_MEASURED, NOT_ON_A_VIRTUAL_CLOCK, Plan, calibrate};
use um_benches::clock::Clock;

/// Allowed relative error of a measured value: the clock counts whole nanoseconds, and some values are differences.
const TOLERANCE: f64 = 0.02;

const PLAN: Plan = Plan::of(16 << 20, 1, 1);

fn measured(builder: Builder) -> Calibration {
    um_kernels::sim::register();
    let sim = builder.build().unwrap();
    let clock = Clock::Simulated(sim.clone());
    calibrate(&sim.table(), clock, PLAN, &mut |_| {}).unwrap()
}

fn not_measured() -> BTreeSet<&'static str> {
    NOT_ON_A_VIRTUAL_CLOCK
        .iter()
        .chain(NEVER_MEASURED)
        .copied()
        .collect()
}

/// Checks every value that the clock expresses.
fn assert_gives_back(truth: &CostModel, found: &CostModel) {
    let values = truth.values().into_iter().zip(found.values());
    let not_measured = not_measured();
    for ((key, truth), (_, found)) in values.filter(|((key, _), _)| !not_measured.contains(key)) {
        assert!(
            (found / truth - 1.0).abs() <= TOLERANCE,
            "{key}: {found} measured, {truth} is true"
        );
    }
}

fn assert_measured_all(found: &Calibration) {
    assert_eq!(found.notes, Vec::<String>::new());
    let built_in: BTreeSet<_> = found.built_in().into_iter().collect();
    assert_eq!(built_in, not_measured());
}

#[test]
fn the_built_in_model_comes_back() {
    let found = measured(Sim::builder());
    assert_measured_all(&found);
    assert_gives_back(&CostModel::h200(), &found.model);
}

#[test]
fn another_model_comes_back_too() {
    let mut truth = CostModel::pascal();
    // Every value differs from all built-in models, each by another factor.
    for (at, (key, value)) in CostModel::pascal().values().into_iter().enumerate() {
        truth.set(key, value * (1.3 + 0.01 * at as f64)).unwrap();
    }
    let found = measured(Sim::builder().gpu(Gpu::Pascal).cost_model(truth.clone()));
    assert_measured_all(&found);
    assert_gives_back(&truth, &found.model);
}

#[test]
fn what_a_device_cannot_show_is_named() {
    let found = measured(Sim::builder().gpu(Gpu::NoConcurrentAccess));
    for key in ["prefetch_us", "cpu_fault_us", "map_bytes_per_s"] {
        assert!(found.built_in().contains(&key), "{key}");
        assert!(found.model.source.contains(key), "{}", found.model.source);
        assert!(
            found.notes.iter().any(|note| note.starts_with(key)),
            "{key}: {:?}",
            found.notes
        );
    }
    assert!(!found.built_in().contains(&"launch_us"));
}

#[test]
fn the_program_writes_what_the_library_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calibration.json");
    let ran = program("um_calibrate", env!("CARGO_BIN_EXE_um_calibrate"))
        .args(["--sim", "--quick", "--out"])
        .arg(&file)
        .env_remove("CUDA_UM_SIM_GPU")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    assert!(
        told.contains("not measured, built-in values: thread_wake_us"),
        "{told}"
    );
    let model = CostModel::from_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for part in ["Simulated NVIDIA H200", "PREDICTED", "thread_wake_us"] {
        assert!(model.source.contains(part), "{}", model.source);
    }
    assert_gives_back(&CostModel::h200(), &model);
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_keeps_a_model_and_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |option| {
        let mut program = crate::program("um_calibrate", env!("CARGO_BIN_EXE_um_calibrate"));
        program
            .args([option, "--sim"])
            .env_remove("CUDA_UM_SIM_GPU");
        let ran = program.env("XDG_CACHE_HOME", folder.path()).output();
        let ran = ran.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    };
    let (code, _, told) = run("--show");
    assert_eq!(code, Some(1));
    assert!(told.contains("--cache measures it"), "{told}");
    let kept = run("--cache");
    let (code, printed, told) = &kept;
    assert_eq!(*code, Some(0), "{told}");
    let (file, source) = printed.split_once('\n').unwrap();
    assert!(file.starts_with(folder.path().to_str().unwrap()), "{file}");
    assert_eq!(CostModel::from_file(file).unwrap().source, source.trim());
    assert_eq!(run("--show"), kept);
}

#[test]
fn without_a_runtime_it_says_so_and_fails() {
    let ran = program("um_calibrate", env!("CARGO_BIN_EXE_um_calibrate"))
        .env("CUDA_UM_CUDART", "/nowhere/libcudart.so")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(told.contains("no CUDA runtime"), "{told}");
    assert!(ran.stdout.is_empty());
}
