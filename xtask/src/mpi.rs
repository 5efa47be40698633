//! `cargo xtask mpi`: programs of several ranks on this machine, with MPICH from a pinned wheel.

use crate::{wheels, workspace};
use anyhow::{Context, Result};

/// The first version with the ABI of MPI 5 in a wheel.
const MPICH: &str = "mpich==5.0.2";

/// Fetches MPICH and runs the tests of um-mpi, over the simulator.
pub fn run() -> Result<()> {
    let prefix = wheels::install_prefix(&[MPICH])?;
    let places = [prefix.clone(), prefix.join("local")];
    // The Python of Debian puts the files of a prefix into `local`.
    let place = places
        .iter()
        .find(|place| place.join("bin/mpiexec").is_file())
        .with_context(|| format!("{MPICH} has no bin/mpiexec in {}", prefix.display()))?;
    let mut tests = workspace::cargo();
    tests.args(["test", "-p", "um-mpi", "--test", "ranks"]);
    tests.env("CUDA_UM_MPI", place.join("lib/libmpi_abi.so.1"));
    tests.env("CUDA_UM_TEST_MPIEXEC", place.join("bin/mpiexec"));
    workspace::run(&mut tests)
}
