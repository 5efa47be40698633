//! `cargo xtask judge`: runs the test suite of another project on the simulator's libraries. A file of `.ci/judges` has the number of tests, and
//! those that do not pass, each with its reason; any other test that fails, and any listed test that passes, is an error. A name in the
//! list with a `*` stands for all that begin and end like it.

mod cudarc;
mod python;
mod samples;

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
    /// The tests of cuda.core for memory, streams, events, graphs, launches and devices.
    CudaCore,
    /// NVIDIA's samples without graphics and libraries.
    Samples,
}

/// A test that ran: whether it passed, and the end of its output.
type Outcomes = BTreeMap<String, (bool, String)>;

/// Runs a suite and compares it with its list. A suite that is in no registry of packages is cloned from `source`, or from its public repository.
pub fn run(suite: Suite, source: Option<&Path>) -> Result<()> {
    // The samples compute for long.
    let libraries = sim_lib::build(matches!(suite, Suite::Samples))?;
    std::fs::create_dir_all(workspace::target().join("judge"))?;
    let (name, outcomes) = match suite {
        Suite::Cudarc => ("cudarc", cudarc::cudarc(&libraries)?),
        Suite::Numba => ("numba", python::numba(&libraries)?),
        Suite::CudaCore => ("cuda-core", python::cuda_core(&libraries, source)?),
        Suite::Samples => ("samples", samples::samples(&libraries, source)?),
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
    let count = known.remove("tests").unwrap_or_default();
    let mut wrong = 0;
    for (test, (passed, output)) in &outcomes {
        let covers = |name: &str| match name.split_once('*') {
            Some((beginning, end)) => test.starts_with(beginning) && test.ends_with(end),
            None => name == test,
        };
        let listed = known.iter().find(|(name, _)| covers(name));
        let listed = listed.map(|(_, reason)| reason);
        match (passed, listed) {
            (true, None) | (false, Some(_)) => continue,
            // It depends on how fast this machine is, or on which files the copy of the repository has.
            (true, Some(reason)) if reason.starts_with("timing") || reason.starts_with("data") => {
                continue;
            }
            (true, Some(_)) => println!("{test} passes: take it from {}", file.display()),
            (false, None) => println!("{test} fails:\n{output}"),
        }
        wrong += 1;
    }
    // A test that is no longer found does not count as one that passes.
    let ran = outcomes.len().to_string();
    ensure!(
        ran == count,
        "{ran} tests ran, and {} says {count}",
        file.display()
    );
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

/// A work tree of a public repository at a commit, made once.
fn checkout(repository: &str, commit: &str, source: Option<&Path>) -> Result<PathBuf> {
    let folder = workspace::target().join("judge");
    let name = repository.rsplit('/').next().unwrap_or_default();
    let complete = folder.join(format!("{name}-{commit}"));
    let partial = folder.join(format!("{name}-partial"));
    if !complete.is_dir() {
        let _ = std::fs::remove_dir_all(&partial);
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--no-checkout"]);
        clone
            .arg(source.unwrap_or(Path::new(repository)))
            .arg(&partial);
        workspace::run(&mut clone).context("--source names another copy of the repository")?;
        // A copy may lack the largest files: then git writes the others, and does not end with success.
        let mut checkout = Command::new("git");
        checkout
            .arg("-C")
            .arg(&partial)
            .args(["checkout", "--quiet", commit])
            .status()?;
        std::fs::rename(&partial, &complete)?;
    }
    Ok(complete.canonicalize()?)
}

/// The value of `LD_LIBRARY_PATH`: the simulator first.
fn search_path(libraries: &Path, others: &[PathBuf]) -> Result<std::ffi::OsString> {
    let folders = [libraries.to_owned()]
        .into_iter()
        .chain(others.iter().cloned());
    Ok(std::env::join_paths(folders)?)
}
