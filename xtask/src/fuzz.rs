//! The fuzz targets under libFuzzer, each for a number of executions.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pinned, so that a run of today can be repeated.
const CARGO_FUZZ: &str = "0.13.2";
const TOOLCHAIN: &str = "nightly";
/// No header and no statement needs more; longer inputs only take longer.
const LONGEST_BYTES: usize = 1024;

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
    let nightly = Command::new("rustup")
        .args(["run", TOOLCHAIN, "rustc", "--version"])
        .output();
    ensure!(
        nightly.is_ok_and(|output| output.status.success()),
        "libFuzzer needs a nightly toolchain: rustup toolchain install {TOOLCHAIN}"
    );
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
    let tool = install()?;
    let mut crashed = Vec::new();
    for target in &targets {
        let (executions, crashes) = fuzz(&tool, target, &seeds.join(target), args.executions)?;
        println!("{target}: {executions} executions, {crashes} crashes");
        if crashes > 0 || executions < args.executions {
            crashed.push(target.as_str());
        }
    }
    ensure!(crashed.is_empty(), "not clean: {}", crashed.join(", "));
    Ok(())
}

/// cargo-fuzz, installed below the target folder if it is not there.
fn install() -> Result<PathBuf> {
    let tools = workspace::target()
        .join("tools")
        .join(format!("cargo-fuzz-{CARGO_FUZZ}"));
    let tool = tools.join("bin/cargo-fuzz");
    if !tool.exists() {
        eprintln!(
            "installing cargo-fuzz {CARGO_FUZZ} into {}",
            tools.display()
        );
        let mut install = workspace::cargo();
        install
            .args(["install", "--quiet", "--locked", "--root"])
            .arg(&tools);
        install.arg(format!("cargo-fuzz@{CARGO_FUZZ}"));
        workspace::run(&mut install)?;
    }
    Ok(tool)
}

/// Runs one target; how often it was executed, and how many inputs it fell over.
fn fuzz(tool: &Path, target: &str, seeds: &Path, executions: u64) -> Result<(u64, usize)> {
    let found = workspace::target().join("fuzz").join(target);
    let (corpus, artifacts) = (found.join("corpus"), found.join("artifacts"));
    // What an earlier run found is in neither: each run stands for itself.
    if found.exists() {
        std::fs::remove_dir_all(&found)?;
    }
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(tool);
    command
        .current_dir(workspace::root())
        // The cargo that runs this task is another toolchain's.
        .env_remove("CARGO")
        .env("RUSTUP_TOOLCHAIN", TOOLCHAIN)
        .args(["fuzz", "run", "--fuzz-dir", "fuzz/libfuzzer"])
        // The targets are safe Rust: panics and overflows are what there is to find, and twice as many executions find more.
        .args(["--sanitizer", "none", "--target-dir"])
        .arg(workspace::target().join("libfuzzer"))
        .arg(target)
        .args([&corpus, seeds])
        .args(["--", "-seed=1", "-print_final_stats=1"])
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
        if !line.contains("NEW ") && !line.contains("REDUCE ") {
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
