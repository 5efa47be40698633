//! `cargo xtask calibrate`: builds the calibration and measures the cost model of this machine's GPU.

use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// Options of `cargo xtask calibrate`.
#[derive(clap::Args)]
pub struct Args {
    /// File for the model, as JSON.
    #[arg(long, value_name = "FILE", default_value = "calibration.json")]
    out: PathBuf,
    /// Pieces of 16 MiB instead of 128, and fewer samples.
    #[arg(long)]
    quick: bool,
    /// Measure the simulator's virtual clock: a test of the calibration.
    #[arg(long)]
    sim: bool,
}

/// Builds and runs the calibration.
pub fn run(args: &Args) -> Result<()> {
    let mut command = workspace::cargo();
    command
        .args(["run", "--release", "-p", "um-benches"])
        .args(["--bin", "um_calibrate", "--", "--out"])
        .arg(std::path::absolute(&args.out)?);
    if args.quick {
        command.arg("--quick");
    }
    if args.sim {
        command.arg("--sim");
    }
    workspace::run(&mut command)
}
