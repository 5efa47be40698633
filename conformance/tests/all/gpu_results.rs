//! Compares the simulator with the GPU runs in `docs/results/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use um_conformance::compare::compare;
use um_conformance::{Choice, GPUS, Machine, Outcome, Run, VERSIONS, cases, run};

/// At most one of every `UNJUDGED_ONE_OF` cases may be unjudged; otherwise the run in `docs/results/` is not sufficient.
const UNJUDGED_ONE_OF: usize = 10;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results")
}

/// Cases that are new or changed since the runs on GPUs in `docs/results/`: no GPU has checked them yet.
const UNJUDGED: &[&str] = &[];

fn allowed() -> BTreeSet<String> {
    UNJUDGED.iter().map(|name| (*name).to_owned()).collect()
}

/// Every `conformance-gpu*.json`.
fn recorded() -> Vec<(PathBuf, Run)> {
    let mut paths: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|path| fs::read_dir(path).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("conformance-gpu") && name.ends_with(".json")
        })
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let run = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path, run)
    };
    paths.into_iter().map(read).collect()
}

/// The simulated machine for a description such as "CUDA 13.0, 2 × NVIDIA H200".
fn counterpart(machine: &str) -> Choice {
    let words: Vec<&str> = machine.split([' ', ',']).collect();
    let ["CUDA", version, "", devices, "×", "NVIDIA", gpu, ..] = words[..] else {
        panic!("no such machine: {machine}");
    };
    // The simulator has no H100, and its H200 gives the answers of one.
    let gpu = if gpu == "H100" { "H200" } else { gpu };
    let unknown = |name: &str| -> ! { panic!("the simulator has no {name}: {machine}") };
    let found = GPUS.iter().find(|(name, _)| name.eq_ignore_ascii_case(gpu));
    let known = VERSIONS.iter().find(|(name, _)| *name == version);
    Choice::Sim {
        gpu: found.unwrap_or_else(|| unknown(gpu)).1,
        cuda: known.unwrap_or_else(|| unknown(version)).1,
        devices: devices.parse().expect("a number of devices"),
    }
}

fn simulated(choice: Choice) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_um_conformance"));
    let machine = Machine::open(choice).unwrap();
    run::run(&machine, choice, program, "", |_, _| {}).unwrap()
}

/// Cases that the GPU has not run, or that passed there with other observations. A case that fails here does not count as
/// unjudged.
fn unjudged(gpu: &Run, sim: &Run) -> BTreeSet<String> {
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let asked = sim.records.iter().filter(|sim| !failed(&sim.outcome));
    let unasked = asked.filter(|sim| {
        let gpu = gpu.records.iter().find(|gpu| gpu.case == sim.case);
        gpu.is_none_or(|gpu| {
            gpu.outcome == Outcome::Passed
                && sim.outcome == Outcome::Passed
                && !gpu.asks_the_same(sim)
        })
    });
    unasked.map(|sim| sim.case.clone()).collect()
}

/// The run without these cases, and without cases that no longer exist.
fn judged(run: &Run, unjudged: &BTreeSet<String>) -> Run {
    let there = |name: &str| cases::all().any(|case| case.name == name);
    let mut run = run.clone();
    run.records
        .retain(|record| there(&record.case) && !unjudged.contains(&record.case));
    run
}

#[test]
fn the_simulator_does_what_the_gpu_did() {
    let (allowed, recorded) = (allowed(), recorded());
    assert!(!recorded.is_empty(), "no run on a GPU in docs/results");
    let mut faults = Vec::new();
    // The cases that no run has judged.
    let mut nowhere: Option<BTreeSet<String>> = None;
    // Several GPUs can have one counterpart.
    let mut runs: Vec<(Choice, Run)> = Vec::new();
    for (path, gpu) in recorded {
        let choice = counterpart(&gpu.machine);
        if !runs.iter().any(|(of, _)| *of == choice) {
            runs.push((choice, simulated(choice)));
        }
        let (_, sim) = runs.iter().find(|(of, _)| *of == choice).unwrap();
        let missing = unjudged(&gpu, sim);
        println!(
            "{}: {}, compared with {}: {} cases, {} of them skipped on both; it has not judged {missing:?}",
            path.display(),
            gpu.machine,
            sim.machine,
            sim.records.len() - missing.len(),
            judged(&gpu, &missing).count("skipped"),
        );
        nowhere = Some(match nowhere {
            None => missing.clone(),
            Some(others) => &others & &missing,
        });
        let (gpu, sim) = (judged(&gpu, &missing), judged(sim, &missing));
        faults.extend(compare(&gpu, &sim).faults);
    }
    let missing = nowhere.unwrap_or_default();
    let new: Vec<_> = missing.difference(&allowed).collect();
    if !new.is_empty() {
        faults.push(format!(
            "new, or asking something else, since the runs in docs/results: {new:?}; run them on a GPU, or list them in UNJUDGED",
        ));
    }
    let known: Vec<_> = allowed.difference(&missing).collect();
    if !known.is_empty() {
        faults.push(format!(
            "a run in docs/results judges {known:?}: remove them from UNJUDGED",
        ));
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn most_cases_are_judged_by_a_gpu() {
    let (unjudged, all) = (UNJUDGED.len(), cases::all().count());
    assert!(
        unjudged * UNJUDGED_ONE_OF <= all,
        "{unjudged} of {all} cases are unjudged: renew the run in docs/results"
    );
}

/// Rules with a measurement as their source are in that measurement, and passed.
#[test]
fn what_was_measured_is_in_the_measurement() {
    let mut measured = 0;
    for case in cases::all() {
        let Some(page) = case.source.strip_prefix("docs/") else {
            continue;
        };
        measured += 1;
        let path = folder().join("..").join(page);
        let run: Run = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let record = run.records.iter().find(|record| record.case == case.name);
        let passed = record.is_some_and(|record| record.outcome == Outcome::Passed);
        assert!(
            passed || UNJUDGED.contains(&case.name),
            "{} is not in {}",
            case.name,
            path.display()
        );
    }
    assert!(measured > 0, "no case is measured");
}

mod the_comparison {
    use super::*;
    use um_conformance::{Record, Value};

    fn of(cases: &[(&str, &str)]) -> Run {
        let record = |(case, asks): &(&str, &str)| Record {
            case: (*case).to_owned(),
            outcome: Outcome::Passed,
            seen: vec![((*asks).to_owned(), Value::Number(1))],
        };
        Run {
            machine: "CUDA 13.0, 2 × NVIDIA H200".to_owned(),
            records: cases.iter().map(record).collect(),
        }
    }

    #[test]
    fn finds_cases_that_are_new_or_ask_something_else() {
        let gpu = of(&[("a.same", "x"), ("a.changed", "x")]);
        let mut sim = of(&[("a.same", "x"), ("a.changed", "y"), ("a.new", "z")]);
        let names = |run: &Run| unjudged(&gpu, run).into_iter().collect::<Vec<_>>();
        assert_eq!(names(&sim), ["a.changed", "a.new"]);
        // A case that fails is not unjudged.
        sim.records[1].outcome = Outcome::Failed("why".to_owned());
        assert_eq!(names(&sim), ["a.new"]);
        // Neither is a case that is skipped only here: the comparison reports it.
        sim.records[1].outcome = Outcome::Skipped("why".to_owned());
        assert_eq!(names(&sim), ["a.new"]);
    }

    #[test]
    fn plays_the_machine_that_was_recorded() {
        let words = counterpart(&of(&[]).machine).arguments().join(" ");
        assert_eq!(words, "--runtime sim --gpu h200 --cuda 13.0 --devices 2");
    }
}
