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
    /// Measure only the values that decide placements, within a second, and keep the model in the user's cache folder, where
    /// `CostModel::of_this_machine` finds it; print the file.
    #[arg(long, conflicts_with_all = ["out", "quick"])]
    cache: bool,
    /// Measure nothing; print the file and the source of the model in the user's cache folder.
    #[arg(long, conflicts_with_all = ["out", "quick", "cache"])]
    show: bool,
    /// Measure the simulator's virtual clock: a test of the calibration.
    #[arg(long)]
    sim: bool,
}

/// Builds and runs the calibration.
pub fn run(args: &Args) -> Result<()> {
    let mut command = workspace::cargo();
    command
        .args(["run", "--release", "-p", "um-benches"])
        .args(["--bin", "um_calibrate", "--"]);
    if !(args.cache || args.show) {
        command.arg("--out").arg(std::path::absolute(&args.out)?);
    }
    for (is_given, option) in [
        (args.quick, "--quick"),
        (args.cache, "--cache"),
        (args.show, "--show"),
        (args.sim, "--sim"),
    ] {
        if is_given {
            command.arg(option);
        }
    }
    workspace::run(&mut command)
}
