//! The cases on simulated machines, compared with the records of GPUs, and the list of cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use um_conformance::compare::compare;
use um_conformance::{Choice, GPUS, Machine, Outcome, Run, VERSIONS, cases, run};

/// Cases that are new or changed since the records of GPUs: no GPU has checked them yet. At most one of ten.
const UNJUDGED: &[&str] = &[
    "by-name.addresses",
    "by-name.context-stack",
    "by-name.copy",
    "by-name.library",
    "by-name.memory-node",
    "by-name.no-bytes",
    "by-name.no-variable",
    "by-name.nodes",
    "by-name.user-objects",
    "pointers.registered-on-second-device",
    "several-devices.pool-copy",
];
/// The machines beside those of the records: one of each other GPU, so that no case is skipped on all.
const OTHERS: [(&str, &str, usize); 6] = [
    ("pascal", "11.8", 1),
    ("gb10", "12.2", 1),
    ("gh200", "12.9", 1),
    ("maxwell", "13.0", 1),
    ("hmm", "13.4", 2),
    ("no-concurrent", "13.4", 2),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn machine(gpu: &str, version: &str, devices: usize) -> Choice {
    let named = GPUS.iter().find(|(name, _)| name.eq_ignore_ascii_case(gpu));
    let known = VERSIONS.iter().find(|(name, _)| *name == version);
    Choice::Sim {
        gpu: named.unwrap_or_else(|| panic!("no simulated {gpu}")).1,
        cuda: known.unwrap_or_else(|| panic!("no simulated {version}")).1,
        devices,
    }
}

/// The simulated machine for a description such as "CUDA 13.0, 2 × NVIDIA H200".
fn counterpart(described: &str) -> Choice {
    let words: Vec<&str> = described.split([' ', ',']).collect();
    let ["CUDA", version, "", devices, "×", "NVIDIA", gpu, ..] = words[..] else {
        panic!("no such machine: {described}");
    };
    // The simulator has no H100, and its H200 gives the answers of one.
    let gpu = if gpu == "H100" { "H200" } else { gpu };
    machine(gpu, version, devices.parse().expect("a number of devices"))
}

fn records() -> Vec<(PathBuf, Run)> {
    let files = fs::read_dir(root().join("conformance/records")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let read = |path: PathBuf| (path.clone(), Run::read(&path).unwrap());
    paths.map(read).collect()
}

/// Runs all cases on each machine, on four threads.
fn run_all(machines: Vec<Choice>) -> Vec<(Choice, Run)> {
    let program = Path::new(env!("CARGO_BIN_EXE_um_conformance"));
    let (left, runs) = (Mutex::new(machines), Mutex::new(Vec::new()));
    let work = || {
        while let Some(choice) = { left.lock().unwrap().pop() } {
            let machine = Machine::open(choice).unwrap();
            let run = run::run(&machine, choice, program, "", |_, _| {}).unwrap();
            runs.lock().unwrap().push((choice, run));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    runs.into_inner().unwrap()
}

/// Cases that a GPU has not run, or that passed there with other observations.
fn unjudged(gpu: &Run, sim: &Run) -> BTreeSet<String> {
    let new = sim.records.iter().filter(|sim| match gpu.find(&sim.case) {
        None => true,
        Some(gpu) => {
            let passed = [&gpu.outcome, &sim.outcome].map(|it| *it == Outcome::Passed);
            passed == [true; 2] && gpu.questions() != sim.questions()
        }
    });
    new.map(|record| record.case.clone()).collect()
}

#[test]
fn every_case_passes_somewhere_and_fails_nowhere_and_the_simulator_does_what_the_gpus_did() {
    let (records, mut machines) = (records(), Vec::new());
    for (_, gpu) in &records {
        let choice = counterpart(&gpu.machine);
        // Several GPUs can have one counterpart.
        if !machines.contains(&choice) {
            machines.push(choice);
        }
    }
    machines.extend(OTHERS.map(|(gpu, version, devices)| machine(gpu, version, devices)));
    if std::env::var("CUDA_UM_TEST_MACHINES").is_ok_and(|which| which == "all") {
        let all = GPUS.iter().flat_map(|(gpu, _)| {
            let with = |devices| {
                VERSIONS
                    .iter()
                    .map(move |(of, _)| machine(gpu, of, devices))
            };
            with(1).chain(with(2))
        });
        machines = all.collect();
    }
    let (runs, mut faults, mut passed) = (run_all(machines), Vec::new(), BTreeSet::new());
    for (choice, run) in &runs {
        assert_eq!(run.records.len(), cases::all().count());
        for record in &run.records {
            match &record.outcome {
                Outcome::Passed => drop(passed.insert(record.case.as_str())),
                Outcome::Failed(why) => faults.push(format!("{} ({choice:?}): {why}", record.case)),
                Outcome::Skipped(_) => {}
            }
        }
    }
    let skipped = cases::all().filter(|case| !passed.contains(case.name));
    faults.extend(skipped.map(|case| format!("{}: skipped on every machine", case.name)));
    let mut nowhere: Option<BTreeSet<String>> = None;
    for (path, gpu) in records {
        let choice = counterpart(&gpu.machine);
        let (_, sim) = runs.iter().find(|(of, _)| *of == choice).unwrap();
        let missing = unjudged(&gpu, sim);
        println!("{} has not judged {missing:?}", path.display());
        let judged = |mut run: Run| {
            let known = |name: &str| cases::all().any(|case| case.name == name);
            run.records
                .retain(|it| known(&it.case) && !missing.contains(&it.case));
            run
        };
        faults.extend(compare(&judged(gpu), &judged(sim.clone())).faults);
        nowhere = Some(nowhere.map_or(missing.clone(), |others| &others & &missing));
    }
    let listed: BTreeSet<_> = UNJUDGED.iter().map(|name| (*name).to_owned()).collect();
    if nowhere.as_ref() != Some(&listed) {
        faults.push(format!("UNJUDGED has to be {nowhere:?}"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(UNJUDGED.len() * 10 <= passed.len(), "renew the records");
}

#[test]
fn names_are_unique_and_say_their_group_and_what_was_measured_is_in_a_record() {
    let mut rules = BTreeMap::new();
    for case in cases::all() {
        let (name, rule) = (case.name, case.rule);
        assert!(rules.insert(name, rule).is_none(), "{name} is there twice");
        assert!(
            name.split_once('.')
                .is_some_and(|(group, _)| !group.is_empty()),
            "{name}"
        );
        assert!(rule.ends_with('.') && rule.len() > 15, "{name}: {rule}");
        if !case.source.starts_with("https://docs.nvidia.com/") {
            let record = Run::read(&root().join(case.source)).unwrap();
            let passed = record
                .find(name)
                .is_some_and(|it| it.outcome == Outcome::Passed);
            assert!(
                passed || UNJUDGED.contains(&name),
                "{name} is not in {}",
                case.source
            );
        }
    }
    assert!(rules.len() > 200, "{} cases", rules.len());
}

/// The functions of the tables that a source calls: names after a dot, without the ending for their signature.
fn called(source: &str) -> BTreeSet<String> {
    let code = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let words = code.flat_map(|line| line.split('.').skip(1));
    let names = words.filter_map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
    });
    let functions = names.filter(|name| {
        let rest = name
            .strip_prefix("cuda")
            .or_else(|| name.strip_prefix("cu"));
        rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
    });
    let plain = functions.map(|name| match name.rsplit_once("_v") {
        Some((plain, version)) if version.parse::<u32>().is_ok() => plain.to_owned(),
        _ => name.to_owned(),
    });
    plain.collect()
}

#[test]
fn every_function_that_the_library_calls_has_a_case() {
    let folder = root().join("crates/cuda-um/src");
    let (mut called_by, mut folders) = (BTreeSet::new(), vec![folder.join("driver")]);
    called_by.extend(called(
        &fs::read_to_string(folder.join("driver.rs")).unwrap(),
    ));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => called_by.extend(called(&fs::read_to_string(path).unwrap())),
            }
        }
    }
    assert!(
        called_by.len() > 50,
        "the calls were not found: {called_by:?}"
    );
    let listed: BTreeSet<_> = cases::all().flat_map(|case| case.calls).collect();
    let without = called_by
        .iter()
        .filter(|name| !listed.contains(&name.as_str()));
    let without: Vec<_> = without.collect();
    assert!(
        without.is_empty(),
        "the library calls them, and no case does: {without:?}"
    );
}
