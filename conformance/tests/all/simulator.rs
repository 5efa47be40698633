//! Runs every case on every GPU and on every version that the simulator offers; with `CUDA_UM_TEST_MACHINES=all` on every combination of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use um_conformance::{Choice, GPUS, Machine, Outcome, VERSIONS, cases, run};

/// Every generation with one device and with two of the same kind, and every version.
fn machines() -> Vec<Choice> {
    let is_all = std::env::var("CUDA_UM_TEST_MACHINES").is_ok_and(|which| which == "all");
    let mut machines = Vec::new();
    for (at, (_, gpu)) in GPUS.iter().enumerate() {
        for (of, (_, cuda)) in VERSIONS.iter().enumerate() {
            // The newest GPU has the oldest and the newest version, because some rules need both.
            for (devices, shift) in [(1, 0), (2, VERSIONS.len() - 1)] {
                if is_all || of == (at + shift) % VERSIONS.len() {
                    machines.push(Choice::Sim {
                        gpu: *gpu,
                        cuda: *cuda,
                        devices,
                    });
                }
            }
        }
    }
    machines
}

#[test]
fn every_case_passes_or_lacks_what_it_declares_and_none_is_skipped_everywhere() {
    let program = Path::new(env!("CARGO_BIN_EXE_um_conformance"));
    let left = Mutex::new(machines());
    let (failed, passed) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(choice) = left.lock().unwrap().pop() else {
                        break;
                    };
                    let machine = Machine::open(choice).unwrap();
                    let run = run::run(&machine, choice, program, "", |_, _| {}).unwrap();
                    assert_eq!(run.records.len(), cases::all().count());
                    for record in run.records {
                        match record.outcome {
                            Outcome::Passed => drop(passed.lock().unwrap().insert(record.case)),
                            Outcome::Failed(why) => {
                                let machine = choice.arguments().join(" ");
                                let text = format!("{} ({machine}): {why}", record.case);
                                failed.lock().unwrap().push(text);
                            }
                            Outcome::Skipped(_) => {}
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} failures:\n{}",
        failed.len(),
        failed.join("\n")
    );
    let passed = passed.into_inner().unwrap();
    let never: Vec<_> = cases::all()
        .map(|case| case.name)
        .filter(|name| !passed.contains(*name))
        .collect();
    assert!(never.is_empty(), "skipped on every machine: {never:?}");
}
