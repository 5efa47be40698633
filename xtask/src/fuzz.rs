//! The fuzz targets under libFuzzer, each for a number of executions.

use crate::{nightly, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What libFuzzer is steered by: the edges and comparisons that an input reaches. No sanitizer: what reads the bytes is safe
/// Rust, so panics and overflows are what there is to find, and more executions find more.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth";
/// Longer than every seed; longer inputs only take longer.
const LONGEST_BYTES: u64 = 2048;

#[derive(clap::Args)]
pub struct Args {
    /// The target; all of them unless given.
    #[arg(long)]
    target: Option<String>,
    /// How often each target is executed.
    #[arg(long, default_value_t = 10_000_000)]
    executions: u64,
}

pub fn run(args: &Args) -> Result<()> {
    let seeds = workspace::root().join("fuzz/seeds");
    let mut all: Vec<_> = std::fs::read_dir(&seeds)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    all.sort();
    let targets: Vec<_> = match &args.target {
        None => all,
        Some(target) if all.contains(target) => vec![target.clone()],
        Some(target) => bail!("there is no target {target}: {}", all.join(", ")),
    };
    let folder = build()?;
    let mut crashed = Vec::new();
    for target in &targets {
        let (executions, crashes) = fuzz(
            &folder.join(target),
            target,
            &seeds.join(target),
            args.executions,
        )?;
        println!("{target}: {executions} executions, {crashes} crashes");
        if crashes > 0 || executions < args.executions {
            crashed.push(target.as_str());
        }
    }
    ensure!(crashed.is_empty(), "not clean: {}", crashed.join(", "));
    Ok(())
}

/// Builds all targets; the folder with their programs.
fn build() -> Result<PathBuf> {
    let target = workspace::target().join("libfuzzer");
    let mut build = nightly::cargo()?;
    build
        .current_dir(workspace::root().join("fuzz/libfuzzer"))
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", COVERAGE)
        // Named, so that build scripts and macros are built without the flags.
        .args(["build", "--release", "--target", nightly::HOST]);
    workspace::run(&mut build)?;
    Ok(target.join(nightly::HOST).join("release"))
}

/// Runs one target; how often it was executed, and how many inputs it fell over.
fn fuzz(program: &Path, target: &str, seeds: &Path, executions: u64) -> Result<(u64, usize)> {
    let found = workspace::target().join("fuzz").join(target);
    let (corpus, artifacts) = (found.join("corpus"), found.join("artifacts"));
    // What an earlier run found is in neither: each run stands for itself.
    if found.exists() {
        std::fs::remove_dir_all(&found)?;
    }
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    for seed in std::fs::read_dir(seeds)? {
        let seed = seed?;
        // libFuzzer cuts off what is longer, and half a file is no seed.
        ensure!(
            seed.metadata()?.len() <= LONGEST_BYTES,
            "a seed of more than {LONGEST_BYTES} bytes: {}",
            seed.path().display()
        );
    }
    let mut command = Command::new(program);
    command
        .args([&corpus, seeds])
        .args(["-seed=1", "-print_final_stats=1"])
        .arg(format!("-runs={executions}"))
        .arg(format!("-max_len={LONGEST_BYTES}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .stderr(Stdio::piped());
    let mut running = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut executed = 0;
    let said = running
        .stderr
        .take()
        .context("its standard error is piped")?;
    for line in BufReader::new(said).lines() {
        let line = line?;
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executed = count.trim().parse()?;
        }
        // Not every input that it kept.
        if !line.contains("NEW") && !line.contains("REDUCE ") {
            eprintln!("{line}");
        }
    }
    let status = running.wait()?;
    let crashes = std::fs::read_dir(&artifacts)?.count();
    if !status.success() && crashes == 0 {
        bail!("{target} ended with {status}");
    }
    Ok((executed, crashes))
}
