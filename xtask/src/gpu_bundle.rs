//! `cargo xtask gpu-bundle`: packs release test binaries, examples and benches, with all files that they need, into one folder
//! that runs on a machine with a GPU and no Rust.

use crate::bench_peers;
use crate::workspace::{self, Program};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Binaries that are left out, by target or by package and target, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "real_cudart",
        "opens libraries of several CUDA versions; `cargo xtask real-cudart` runs it without a GPU",
    ),
    (
        "um-conformance--all",
        "the conformance cases on the simulator; bin/um_conformance runs them on a GPU",
    ),
    ("layout", "compares with C headers; needs no GPU"),
    ("real_libraries", "compares with C headers; needs no GPU"),
    (
        "um-fuzz--all",
        "runs the readers of untrusted bytes; needs no GPU",
    ),
    ("cuda-um-trace--all", "reads traces; needs no GPU"),
    (
        "um-conformance--um_conformance",
        "compares records; needs no GPU",
    ),
];

/// Features of the bundled binaries.
const FEATURES: &str = include_str!("../../.ci/features");

const RUN_SH: &str = include_str!("run.sh");

/// Options of `cargo xtask gpu-bundle`.
#[derive(clap::Args)]
pub struct Args {
    /// Output folder; its old contents are replaced.
    #[arg(long, default_value = "gpu-bundle")]
    out: PathBuf,
}

/// Builds, strips and packs the binaries.
pub fn run(args: &Args) -> Result<()> {
    let root = workspace::root();
    let out = &root.join(&args.out);
    empty(out)?;
    // First, because it marks the folder as a bundle, also if a later step fails.
    let script = out.join("run.sh");
    fs::write(&script, RUN_SH)?;
    workspace::run(Command::new("chmod").arg("+x").arg(&script))?;
    pack_binaries(out)?;
    workspace::copy(&root.join("data"), &out.join("data"))?;
    pack_peers(&root.join("benches/peers"), &out.join("peers"))?;
    println!("on a machine with a GPU: ./run.sh");
    workspace::run(Command::new("du").arg("-sh").arg(out))
}

/// Replaces an earlier bundle by empty folders.
fn empty(out: &Path) -> Result<()> {
    if out.exists() {
        ensure!(
            out.join("run.sh").exists() || fs::read_dir(out)?.next().is_none(),
            "{} exists but is not a bundle; name another folder with --out",
            out.display()
        );
        fs::remove_dir_all(out)?;
    }
    for folder in ["tests", "bin"] {
        fs::create_dir_all(out.join(folder))?;
    }
    Ok(())
}

fn pack_binaries(out: &Path) -> Result<()> {
    let tests = "test --no-run --workspace --exclude xtask --exclude cuda-um-testkit --exclude cuda-um-loom --exclude cuda-um-compile-fail --lib --test *";
    for binary in built(tests, FEATURES.trim())? {
        if binary.is_test && belongs(&binary)? {
            let name = full_name(&binary)?;
            pack_binary(&binary, &out.join("tests").join(name))?;
        }
    }
    let programs = "build --bins -p batch_recall -p um-examples -p um-benches -p um-conformance -p cuda-um-trace";
    for binary in built(programs, "cuda-um-trace/cli")? {
        if belongs(&binary)? {
            pack_binary(&binary, &out.join("bin").join(&binary.target))?;
        }
    }
    Ok(())
}

/// Adds the scripts and the compiled peers. A peer that cannot be built here is reported as skipped when the bundle measures.
fn pack_peers(scripts: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(scripts)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_name().context("a script has a name")?;
            fs::copy(&path, to.join(name))?;
        }
    }
    for (peer, why) in bench_peers::build(to)? {
        eprintln!("left out: {peer} ({why})");
    }
    workspace::run(Command::new("du").arg("-sh").arg(to))
}

/// True if a binary belongs in the bundle; otherwise prints the reason.
fn belongs(binary: &Program) -> Result<bool> {
    let full = full_name(binary)?;
    let is_it = |name: &str| name == binary.target || name == full;
    // Programs are named after the libraries of their packages.
    let left_out = LEFT_OUT
        .iter()
        .find(|(name, _)| is_it(name) && (binary.is_test || !name.contains("--")));
    if let Some((_, why)) = left_out {
        eprintln!("left out: {full} ({why})");
    }
    Ok(left_out.is_none())
}

/// The package and the target.
fn full_name(binary: &Program) -> Result<String> {
    Ok(format!(
        "{}--{}",
        package_name(&binary.package)?,
        binary.target
    ))
}

/// Runs cargo in release mode and returns the programs that it reports.
fn built(arguments: &str, features: &str) -> Result<Vec<Program>> {
    let mut command = workspace::cargo();
    command.args(arguments.split(' '));
    workspace::programs(command.args(["--release", "--features", features]))
}

fn package_name(folder: &Path) -> Result<String> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    text.lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .with_context(|| format!("{} has no name", manifest.display()))
}

fn pack_binary(binary: &Program, to: &Path) -> Result<()> {
    fs::copy(&binary.path, to)?;
    workspace::run(Command::new("strip").arg(to))
        .context("`strip` comes with the C compiler's binutils")
}
