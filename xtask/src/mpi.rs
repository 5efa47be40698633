//! `cargo xtask mpi`: programs of several ranks on this machine, with MPICH from a pinned wheel.

use crate::{wheels, workspace};
use anyhow::{Context, Result};
use std::process::Command;

/// The first version with the ABI of MPI 5 in a wheel.
const MPICH: &str = "mpich==5.0.2";

/// A program of um-examples, which checks its result.
const EXAMPLE: &str = "search_over_ranks";

/// Fetches MPICH and runs the tests of um-mpi and the example, over the simulator.
pub fn run() -> Result<()> {
    let prefix = wheels::install_prefix(&[MPICH])?;
    let places = [prefix.clone(), prefix.join("local")];
    // The Python of Debian puts the files of a prefix into `local`.
    let place = places
        .iter()
        .find(|place| place.join("bin/mpiexec").is_file())
        .with_context(|| format!("{MPICH} has no bin/mpiexec in {}", prefix.display()))?;
    let (mpiexec, library) = (place.join("bin/mpiexec"), place.join("lib/libmpi_abi.so.1"));
    workspace::run(
        cargo("test", &["--test", "ranks"])
            .env("CUDA_UM_MPI", &library)
            .env("CUDA_UM_TEST_MPIEXEC", &mpiexec),
    )?;
    workspace::run(&mut cargo("build", &["--bin", EXAMPLE]))?;
    let mut example = Command::new(mpiexec);
    example.args(["-n", "4"]);
    example.arg(workspace::target().join("debug").join(EXAMPLE));
    example.args(["--runtime", "sim"]);
    workspace::run(example.env("CUDA_UM_MPI", library))
}

/// Cargo with the features of `.ci/run`, whose programs are built already.
fn cargo(command: &str, target: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args([command, "--workspace", "--features", "cuda-um-trace/cli"]);
    cargo.args(target);
    cargo
}
