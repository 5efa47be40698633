//! `cargo xtask judge`: runs the test suite of another project on the simulator's libraries. A file of `.ci/judges` has the number of tests, and
//! those that do not pass, each with its reason; any other test that fails, and any listed test that passes, is an error. A name in the list
//! that ends with `*` stands for all that begin like it.

mod cudarc;
mod python;

use crate::{sim_lib, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time of one test, and of a program that has many.
const LIMIT: Duration = Duration::from_secs(90);
const LONG: Duration = Duration::from_secs(300);

/// A public suite.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Suite {
    /// The driver tests of cudarc.
    Cudarc,
    /// The tests of numba-cuda's driver layer.
    Numba,
    /// The tests of cuda.core for memory, streams, events, graphs, launches and devices, from a checkout of cuda-python.
    CudaCore,
    /// NVIDIA's samples, from a folder with a folder for each sample, which has the program under the same name.
    Samples,
}

/// A test that ran: whether it passed, and the end of its output.
type Outcomes = BTreeMap<String, (bool, String)>;

/// Runs a suite and compares it with its list. The source is for the suites that no registry of packages has.
pub fn run(suite: Suite, source: Option<&Path>) -> Result<()> {
    let absent =
        "this suite is in no registry: give its folder with --source (docs/without-a-gpu.md)";
    let source = || source.context(absent)?.canonicalize().context(absent);
    // The samples compute for long.
    let libraries = sim_lib::build(matches!(suite, Suite::Samples))?;
    std::fs::create_dir_all(workspace::target().join("judge"))?;
    let (name, outcomes) = match suite {
        Suite::Cudarc => ("cudarc", cudarc::cudarc(&libraries)?),
        Suite::Numba => ("numba", python::numba(&libraries)?),
        Suite::CudaCore => ("cuda-core", python::cuda_core(&libraries, &source()?)?),
        Suite::Samples => ("samples", samples(&libraries, &source()?)?),
    };
    let passed = outcomes.values().filter(|(passed, _)| *passed).count();
    println!("{name}: {passed} of {} tests pass", outcomes.len());
    let file = workspace::root()
        .join(".ci/judges")
        .join(format!("{name}.txt"));
    let list = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let lines = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let known = lines.map(|line| {
        line.split_once(": ")
            .with_context(|| format!("{line}: no reason"))
    });
    let mut known: BTreeMap<&str, &str> = known.collect::<Result<_>>()?;
    // A test that is no longer found does not count as one that passes. The number of samples depends on the folder.
    if let Some(count) = known.remove("tests") {
        ensure!(
            count == outcomes.len().to_string(),
            "{} tests ran, and {} says {count}",
            outcomes.len(),
            file.display()
        );
    }
    let mut wrong = 0;
    for (test, (passed, output)) in &outcomes {
        let covers = |name: &str| match name.strip_suffix('*') {
            Some(beginning) => test.starts_with(beginning),
            None => name == test,
        };
        let listed = known.iter().find(|(name, _)| covers(name));
        let listed = listed.map(|(_, reason)| reason);
        match (passed, listed) {
            (true, None) | (false, Some(_)) => continue,
            // It depends on how fast this machine is.
            (true, Some(reason)) if reason.starts_with("timing") => continue,
            (true, Some(_)) => println!("{test} passes: take it from {}", file.display()),
            (false, None) => println!("{test} fails:\n{output}"),
        }
        wrong += 1;
    }
    ensure!(
        wrong == 0,
        "{wrong} tests are not as {} says",
        file.display()
    );
    Ok(())
}

/// Runs a test in a process of its own; passes if it ends with success in time.
fn outcome(command: &mut Command, limit: Duration) -> Result<(bool, String)> {
    let log = workspace::target().join("judge/log");
    let file = std::fs::File::create(&log)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let started = Instant::now();
    let passed = loop {
        match child.try_wait()? {
            Some(status) => break status.success(),
            None if started.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    Ok((passed, lines[lines.len().saturating_sub(12)..].join("\n")))
}

/// The value of `LD_LIBRARY_PATH`: the simulator first.
fn search_path(libraries: &Path, others: &[PathBuf]) -> Result<std::ffi::OsString> {
    let folders = [libraries.to_owned()]
        .into_iter()
        .chain(others.iter().cloned());
    Ok(std::env::join_paths(folders)?)
}

/// Runs each program in its own folder. The programs have PTX and a shared libcudart.
fn samples(libraries: &Path, source: &Path) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for entry in std::fs::read_dir(source).with_context(|| source.display().to_string())? {
        let entry = entry?;
        let folder = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let program = folder.join(&name);
        if !program.is_file() {
            continue;
        }
        let mut test = Command::new(&program);
        test.current_dir(&folder)
            .env("LD_LIBRARY_PATH", search_path(libraries, &[])?);
        test.envs([("CUDA_UM_SIM_CUDA", "13.0"), ("CUDA_UM_SIM_DEVICES", "2")]);
        test.env("CUDA_UM_SIM_KERNEL_CHECKS", "none");
        outcomes.insert(name, outcome(&mut test, LONG)?);
    }
    ensure!(!outcomes.is_empty(), "{}: no programs", source.display());
    Ok(outcomes)
}
