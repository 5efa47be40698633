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
    (
        "cuda-um-sim-lib--library",
        "builds libraries with a C compiler; needs no GPU",
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
    /// Also the tests and programs of the workspaces in `extras`.
    #[arg(long, conflicts_with = "only")]
    extras: bool,
    /// Only this program, and the peers if it is `um_bench`: quick to build, for comparisons of two versions.
    #[arg(long, value_name = "PROGRAM")]
    only: Option<String>,
}

/// Builds, strips and packs the binaries.
pub fn run(args: &Args) -> Result<()> {
    let root = &workspace::root();
    let out = &root.join(&args.out);
    empty(out)?;
    // First, because it marks the folder as a bundle, also if a later step fails.
    let script = out.join("run.sh");
    fs::write(&script, RUN_SH)?;
    workspace::run(Command::new("chmod").arg("+x").arg(&script))?;
    match &args.only {
        Some(program) => pack_programs(root, &format!("--workspace --bin {program}"), out)?,
        None => pack_binaries(out)?,
    }
    if args.extras {
        pack_extras(&root.join("extras"), out)?;
    }
    if args.only.is_none() {
        workspace::copy(&root.join("data"), &out.join("data"))?;
    }
    if args.only.as_deref().is_none_or(|only| only == "um_bench") {
        pack_peers(&root.join("benches/peers"), &out.join("peers"))?;
    }
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
    let root = &workspace::root();
    let tests = "--workspace --exclude xtask --exclude cuda-um-testkit --exclude cuda-um-loom --exclude cuda-um-compile-fail --lib --test *";
    pack_tests(
        root,
        &format!("{tests} --features {}", FEATURES.trim()),
        out,
    )?;
    let programs = "--bins -p batch_recall -p um-examples -p um-benches -p um-conformance -p cuda-um-trace -p um-weights --features cli";
    pack_programs(root, programs, out)?;
    pack_programs(root, "-p um-cudarc --example all_reduce", out)
}

/// Packs the tests and programs of the workspaces in `extras`, with all features: one that has a `run.sh` into a folder of its own, the others
/// beside those of the library. The others are packed if one cannot be built.
fn pack_extras(extras: &Path, out: &Path) -> Result<()> {
    let mut failed = Vec::new();
    for entry in fs::read_dir(extras)? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").is_file() {
            failed.extend(
                pack_extra(&folder, out)
                    .err()
                    .map(|error| format!("{}: {error:#}", folder.display())),
            );
        }
    }
    ensure!(failed.is_empty(), "not packed: {}", failed.join("; "));
    Ok(())
}

fn pack_extra(folder: &Path, out: &Path) -> Result<()> {
    let script = folder.join("run.sh");
    let own = out
        .join("extras")
        .join(folder.file_name().context("a folder has a name")?);
    let out = if script.is_file() { own.as_path() } else { out };
    for part in ["tests", "bin"] {
        fs::create_dir_all(out.join(part))?;
    }
    pack_tests(folder, "--workspace --all-features --tests", out)?;
    pack_programs(folder, "--workspace --all-features --bins --examples", out)?;
    if script.is_file() {
        fs::copy(script, out.join("run.sh"))?;
    }
    // What else its programs need.
    if folder.join("pack").is_file() {
        workspace::run(
            Command::new(folder.join("env"))
                .current_dir(folder)
                .arg("./pack")
                .arg(out),
        )?;
    }
    Ok(())
}

fn pack_tests(workspace: &Path, arguments: &str, out: &Path) -> Result<()> {
    for binary in built(workspace, &format!("test --no-run {arguments}"))? {
        if binary.is_test && belongs(&binary)? {
            let name = full_name(&binary)?;
            pack_binary(&binary, &out.join("tests").join(name))?;
        }
    }
    Ok(())
}

fn pack_programs(workspace: &Path, arguments: &str, out: &Path) -> Result<()> {
    for binary in built(workspace, &format!("build {arguments}"))? {
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

/// Runs cargo in release mode, by the workspace's `env` if it has one, and returns the programs that it reports.
fn built(workspace: &Path, arguments: &str) -> Result<Vec<Program>> {
    let mut command = workspace::cargo();
    if workspace.join("env").is_file() {
        command = Command::new(workspace.join("env"));
        command.arg("cargo");
    }
    command.current_dir(workspace).args(arguments.split(' '));
    workspace::programs(command.arg("--release"))
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
