//! Runs the fuzz targets under libFuzzer, each for a number of executions.

use crate::{nightly, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The coverage that guides libFuzzer: the edges and comparisons that an input reaches. No sanitizer is used: the readers are
/// safe Rust, so only panics and overflows can be found, and more executions find more.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth";
/// Longer than every seed; longer inputs only take more time.
const LONGEST_BYTES: u64 = 2048;
/// Limits for an input: beyond them libFuzzer saves the input as `timeout-…` or `oom-…`, and it counts as a crash.
const LIMITS: [&str; 2] = ["-timeout=1", "-rss_limit_mb=512"];

#[derive(clap::Args)]
pub struct Args {
    /// The target [default: all].
    #[arg(long)]
    target: Option<String>,
    /// Number of executions of each target.
    #[arg(long, default_value_t = 10_000_000)]
    executions: u64,
    /// Number of processes that share the executions, each with its own seed and corpus [default: number of cores].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
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
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = args.jobs.unwrap_or(cores);
    let mut crashed = Vec::new();
    for target in &targets {
        let (executions, crashes) = fuzz(
            &folder.join(target),
            target,
            &seeds.join(target),
            args.executions,
            jobs,
        )?;
        println!("{target}: {executions} executions, {crashes} crashes");
        if crashes > 0 || executions < args.executions {
            crashed.push(target.as_str());
        }
    }
    ensure!(crashed.is_empty(), "not clean: {}", crashed.join(", "));
    Ok(())
}

/// Builds all targets, and returns the folder with their programs.
fn build() -> Result<PathBuf> {
    let target = workspace::target().join("libfuzzer");
    let mut build = nightly::cargo()?;
    build
        .current_dir(workspace::root().join("fuzz/libfuzzer"))
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", COVERAGE)
        // The target is named, so that build scripts and macros are built without the flags.
        .args(["build", "--release", "--target", nightly::HOST]);
    workspace::run(&mut build)?;
    Ok(target.join(nightly::HOST).join("release"))
}

/// Runs one target; returns the number of executions, and the number of failing inputs.
fn fuzz(
    program: &Path,
    target: &str,
    seeds: &Path,
    executions: u64,
    jobs: u64,
) -> Result<(u64, usize)> {
    let found = workspace::target().join("fuzz").join(target);
    let artifacts = found.join("artifacts");
    // The corpus of an earlier run is not used: each run is independent.
    if found.exists() {
        std::fs::remove_dir_all(&found)?;
    }
    std::fs::create_dir_all(&artifacts)?;
    for seed in std::fs::read_dir(seeds)? {
        let seed = seed?;
        // libFuzzer truncates longer inputs, and a truncated file is not a useful seed.
        ensure!(
            seed.metadata()?.len() <= LONGEST_BYTES,
            "a seed of more than {LONGEST_BYTES} bytes: {}",
            seed.path().display()
        );
    }
    let job = &|number: u64| {
        let corpus = found.join(format!("corpus-{number}"));
        std::fs::create_dir_all(&corpus)?;
        let mut command = Command::new(program);
        command
            .args([&corpus, seeds])
            .args([format!("-seed={number}"), "-print_final_stats=1".to_owned()])
            .arg(format!("-runs={}", executions.div_ceil(jobs)))
            .arg(format!("-max_len={LONGEST_BYTES}"))
            .args(LIMITS)
            .arg(format!("-artifact_prefix={}/", artifacts.display()));
        listen(command)
    };
    let outcomes: Vec<Result<(u64, bool)>> = std::thread::scope(|scope| {
        let all: Vec<_> = (1..=jobs)
            .map(|number| scope.spawn(move || job(number)))
            .collect();
        let join = |one: std::thread::ScopedJoinHandle<'_, _>| {
            one.join().expect("a thread that only listens")
        };
        all.into_iter().map(join).collect()
    });
    let (mut executed, mut failed) = (0, false);
    for outcome in outcomes {
        let (times, well) = outcome?;
        executed += times;
        failed |= !well;
    }
    let crashes = std::fs::read_dir(&artifacts)?.count();
    ensure!(
        !failed || crashes > 0,
        "{target} failed without an input: see above"
    );
    Ok((executed, crashes))
}

/// Runs libFuzzer and forwards its output; returns the number of executions, and whether it succeeded.
fn listen(mut command: Command) -> Result<(u64, bool)> {
    let mut running = command
        .stderr(Stdio::piped())
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
        // Lines about each new input are not forwarded.
        if !line.contains("NEW") && !line.contains("REDUCE ") {
            eprintln!("{line}");
        }
    }
    Ok((executed, running.wait()?.success()))
}
