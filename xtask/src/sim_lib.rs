//! `cargo xtask sim-lib`: builds the simulator as libcuda, libcudart and libcupti, for programs that open CUDA's libraries.

#[path = "../../crates/cuda-um-testkit/src/sim_lib.rs"]
mod folder;

use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Options of `cargo xtask sim-lib`.
#[derive(clap::Args)]
pub struct Args {
    /// Build with optimizations.
    #[arg(long)]
    release: bool,
}

/// Builds the libraries, and prints their folder.
pub fn run(args: &Args) -> Result<()> {
    println!("{}", build(args.release)?.display());
    Ok(())
}

/// Builds the libraries, and returns their folder.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--package", "cuda-um-sim-lib"]);
    if release {
        cargo.arg("--release");
    }
    workspace::run(&mut cargo)?;
    let profile = if release { "release" } else { "debug" };
    let built = workspace::target()
        .join(profile)
        .join("libcuda_um_sim_lib.so");
    let folder = workspace::target().join("sim-lib");
    fs::create_dir_all(&folder)?;
    folder::put(&folder, folder::DRIVER, |unfinished| {
        fs::copy(&built, unfinished).map(drop)
    })
    .with_context(|| format!("cannot copy {}", built.display()))?;
    folder::complete(&folder).context("a C compiler makes the libraries beside libcuda")?;
    let header = workspace::root().join("crates/cuda-um-sim/libcuda/include/cuda_um_sim.h");
    fs::copy(header, folder.join("cuda_um_sim.h"))?;
    Ok(folder)
}
