//! `cargo xtask aarch64`: the tests on the simulator and the main job, compiled for aarch64 Linux and run by `qemu-aarch64`.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// The C library of the target, where Debian has it.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";
const PACKAGES: [&str; 7] = [
    "cuda-um-sys",
    "cuda-um-sim",
    "cuda-um",
    "um-backend",
    "um-dlpack",
    "um-residency",
    "um-weights",
];

/// Tests that have no useful result under qemu, each with the reason.
const SKIPPED: &[(&str, &str)] = &[(
    "misuse_does_not_compile",
    "compares messages of the compiler, which are the same for each target",
)];

/// Options of `cargo xtask aarch64`.
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of a page that qemu tells the program: 4096, 16384 or 65536.
    #[arg(long, default_value_t = 4096)]
    page_bytes: u32,
    /// The packages to test [default: cuda-um-sys, cuda-um-sim, cuda-um, um-backend, um-dlpack, um-residency, um-weights, and the main job].
    #[arg(last = true)]
    packages: Vec<String>,
}

/// The numbers of tests that passed, that failed, and that were ignored or left out.
type Counts = [usize; 3];

/// Builds and runs everything, and prints the numbers of tests.
pub fn run(args: &Args) -> Result<()> {
    let starts = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_libc = Path::new(SYSROOT).join("lib/crt1.o").is_file();
    ensure!(
        starts("qemu-aarch64") && starts(LINKER) && has_libc,
        "this needs qemu and a cross compiler: apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    );
    let runner = match args.page_bytes {
        4096 => format!("qemu-aarch64 -L {SYSROOT}"),
        bytes => with_pages(bytes)?,
    };
    let all = Mutex::new(BTreeMap::<PathBuf, Counts>::new());
    let programs = programs(&args.packages, &runner)?;
    workspace::on_each_core(&programs, |(folder, program)| {
        let counts = test(&runner, folder, program)?;
        let mut all = all.lock().ok().context("the other worker goes on")?;
        let sums = all.entry(folder.clone()).or_default();
        *sums = std::array::from_fn(|index| sums[index] + counts[index]);
        Ok(())
    })?;
    let all = all.into_inner()?;
    if args.packages.is_empty() {
        workspace::run(cargo(&runner).args(["run", "--release", "--target", TARGET]))?;
    }
    for (test, why) in SKIPPED {
        println!("left out: {test} ({why})");
    }
    for (folder, [passed, failed, left_out]) in &all {
        let package = folder.file_name().unwrap_or_default().display();
        println!("{package}: {passed} passed, {failed} failed, {left_out} left out");
    }
    ensure!(all.values().all(|counts| counts[1] == 0), "tests failed");
    Ok(())
}

/// The runner whose programs see pages of so many bytes. qemu 10 only warns that it cannot do this.
fn with_pages(bytes: u32) -> Result<String> {
    let runner = format!("qemu-aarch64 -p {bytes} -L {SYSROOT}");
    let mut words = runner.split(' ');
    let mut probe = Command::new(words.next().context("a runner")?);
    let loader = Path::new(SYSROOT).join("lib/ld-linux-aarch64.so.1");
    let output = probe.args(words).arg(loader).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success() && said.is_empty(),
        "pages of {bytes} bytes need an older qemu, such as 7.2: {said}"
    );
    Ok(runner)
}

fn cargo(runner: &str) -> Command {
    let mut cargo = workspace::cargo();
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    cargo
}

/// Builds all test programs together, so that no crate is built twice. Returns each with the folder of its package.
fn programs(packages: &[String], runner: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut cargo = cargo(runner);
    cargo.args(["test", "--no-run", "--tests", "--target", TARGET]);
    let all = || PACKAGES.map(str::to_owned).to_vec();
    let packages = Some(packages.to_vec()).filter(|packages| !packages.is_empty());
    for package in packages.unwrap_or_else(all) {
        cargo.args(["-p", &package]);
    }
    let programs = workspace::programs(&mut cargo)?.into_iter();
    Ok(programs.map(|one| (one.package, one.path)).collect())
}

/// Runs a test program, as Cargo would, and counts its tests.
fn test(runner: &str, folder: &Path, program: &Path) -> Result<Counts> {
    let mut words = runner.split(' ');
    let mut command = Command::new(words.next().context("a runner")?);
    command.args(words).arg(program).current_dir(folder);
    command.args(SKIPPED.iter().flat_map(|(test, _)| ["--skip", test]));
    command.env("CARGO_MANIFEST_DIR", folder);
    // qemu does not run the children of its program.
    command.env("CUDA_UM_TEST_RUNNER", runner);
    // A child made by `fork` waits for locks of qemu that other threads hold: https://gitlab.com/qemu-project/qemu/-/issues/285.
    command.env("RUST_TEST_THREADS", "1");
    // With pages of other sizes, qemu 7.2 crashes while a program prints the backtrace of a panic.
    command.env("RUST_BACKTRACE", "0");
    // Fewer cases, because qemu is twenty times slower.
    command.env("CUDA_UM_MODEL_SEQUENCES", "100");
    command.env("CUDA_UM_FAULT_SAMPLE", "7");
    let started = Instant::now();
    let output = command.output()?;
    let seconds = started.elapsed().as_secs();
    let (text, errors) = (&output.stdout, &output.stderr);
    let text = String::from_utf8_lossy(text).into_owned() + &String::from_utf8_lossy(errors);
    println!("--- {} ({seconds} s)\n{text}", program.display());
    // The last line: children of tests print theirs before.
    let results = |line: &str| Some(line.split_once("test result: ")?.1.to_owned());
    let numbers = text.lines().rev().find_map(results).unwrap_or_default();
    let words: Vec<&str> = numbers.split([' ', ';']).collect();
    let mut counts = Counts::default();
    for pair in words.windows(2) {
        let kinds: [&[&str]; 3] = [&["passed"], &["failed"], &["ignored", "filtered"]];
        if let Some(kind) = kinds.iter().position(|names| names.contains(&pair[1])) {
            counts[kind] += pair[0].parse::<usize>().unwrap_or(0);
        }
    }
    // A program that a signal ends prints no numbers.
    if !output.status.success() && counts[1] == 0 {
        counts[1] = 1;
    }
    Ok(counts)
}
