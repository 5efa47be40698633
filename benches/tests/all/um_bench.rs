//! The whole program on the simulator.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::{Command, Output};
use um_benches::measurements::ALL;
use um_benches::report::{Kind, Outcome, Report};

/// A program, in cargo's target folder or in the folder of the bundle.
fn program(name: &str, built: &str) -> Command {
    Command::new(match env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join(name),
        None => built.into(),
    })
}

fn command() -> Command {
    program("um_bench", env!("CARGO_BIN_EXE_um_bench"))
}

/// Runs it on two simulated GPUs.
fn um_bench(arguments: &[&str], out: &Path) -> Output {
    command()
        .env("CUDA_UM_SIM_DEVICES", "2")
        .args(arguments)
        .arg("--out")
        .arg(out)
        .output()
        .unwrap()
}

#[test]
fn every_measurement_runs_and_every_result_is_verified() {
    let out = tempfile::tempdir().unwrap();
    let ran = um_bench(&["--sim", "--quick", "--rounds", "1"], out.path());
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");

    let text = std::fs::read_to_string(out.path().join("bench.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert!(report.predicted && report.quick);
    let names: BTreeSet<&str> = report
        .measurements
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ALL.iter().map(|one| one.name).collect());
    for measurement in &report.measurements {
        assert_eq!(measurement.failed, None);
        assert!(!measurement.cases.is_empty(), "{}", measurement.name);
        for case in &measurement.cases {
            let at = format!("{}, {}", measurement.name, case.label);
            assert!(case.contenders.iter().any(|one| one.kind == Kind::Ours));
            for contender in &case.contenders {
                match &contender.outcome {
                    Outcome::Measured {
                        verified, seconds, ..
                    } => {
                        assert!(*verified && seconds.count == 1, "{at}");
                    }
                    Outcome::Skipped { reason } => {
                        assert!(contender.kind == Kind::Peer && !reason.is_empty(), "{at}");
                    }
                    Outcome::Failed { reason } => panic!("{at}, {}: {reason}", contender.name),
                }
            }
        }
    }
    let table = std::fs::read_to_string(out.path().join("bench.md")).unwrap();
    // Each skipped contender is named with the reason, and notes are printed.
    assert!(table.contains("- skipped: CUDA C++ cudaMemcpy; PyTorch"));
    assert!(table.contains("the simulator's clock and a real one do not compare"));
    for note in [
        "of the time of the best raw way from ordinary memory (",
        "of the time of the best hand-written version (",
        "ns over cuLaunchKernel, managed",
    ] {
        assert!(table.contains(note), "{note}");
    }
    assert!(table.contains("Predictions of the simulator"));
}

#[test]
fn the_first_uses_are_those_of_fresh_processes() {
    let arguments = ["--sim", "--quick", "--rounds", "1", "--first-use"];
    let ran = command().args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    let table = String::from_utf8_lossy(&ran.stdout);
    for figure in [
        "copy in, 16 MiB, unified",
        "copy out, 1 MiB, device",
        "launch, 1 MiB, device",
        "allocate and free, 16 MiB, pinned",
        "guard, 16 MiB, unified",
    ] {
        let row = table.lines().find(|line| line.contains(figure)).unwrap();
        let ratio = row.split(" | ").nth(3).unwrap();
        // A guard of the simulator takes no time.
        assert!(
            figure.starts_with("guard") || ratio.parse::<f64>().unwrap() > 0.0,
            "{row}"
        );
    }
}

#[test]
fn the_list_names_every_measurement() {
    let listed = command().arg("--list").output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout);
    let named: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(named[..ALL.len()], ALL.map(|one| one.name));
    let whole = ALL.iter().map(|one| one.seconds).sum::<u32>();
    assert!(whole <= 8 * 60, "a whole run takes {whole} s");
    assert!(text.ends_with(&format!("together: {whole} s\n")), "{text}");
}

#[test]
fn on_one_gpu_the_measurement_of_two_says_so() {
    let out = tempfile::tempdir().unwrap();
    let only = ["--sim", "--quick", "--only", "devices", "--out"];
    let ran = command().args(only).arg(out.path()).output().unwrap();
    assert!(ran.status.success());
    let table = String::from_utf8_lossy(&ran.stdout);
    let skipped = "- skipped: cuda-um (needs two GPUs, and this machine has one)";
    assert!(table.contains(skipped), "{table}");
}

#[test]
fn without_a_gpu_it_says_so() {
    let out = tempfile::tempdir().unwrap();
    let ran = command()
        .env("CUDA_UM_CUDART", "/nowhere/libcudart.so")
        .arg("--out")
        .arg(out.path().join("none"))
        .output()
        .unwrap();
    assert!(!ran.status.success());
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(
        told.contains("--sim") && told.contains("/nowhere/libcudart.so"),
        "{told}"
    );
    assert!(!out.path().join("none").exists());
}

#[test]
fn an_unknown_measurement_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let ran = um_bench(&["--sim", "--only", "launch,nonsense"], out.path());
    assert!(!ran.status.success());
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(
        told.contains("nonsense") && told.contains("copy_from_host"),
        "{told}"
    );
}

/// Without valgrind: the calls are made, and succeed.
#[test]
fn each_call_whose_instructions_are_counted_succeeds() {
    for call in 0..5 {
        let made = program("um_instructions", env!("CARGO_BIN_EXE_um_instructions"))
            .args([call.to_string(), "3".to_owned()])
            .status();
        assert!(made.unwrap().success(), "call {call}");
    }
}
