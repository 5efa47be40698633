//! `cargo xtask bench`: builds the measurements and runs them on the GPU of this machine, or on the simulator.
//!
//! It uses the compiled peers from `cargo xtask bench-peers`; missing peers are reported as skipped.

use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Only sizes up to 16 MiB, and a third of the rounds.
    #[arg(long)]
    quick: bool,
    /// Run only these measurements, separated by commas; `um_bench --list` lists them.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Predict with the simulator's cost model.
    #[arg(long)]
    sim: bool,
    /// Number of rounds for each size.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Folder for the results [default: docs/results/GPU].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds and runs the measurements.
pub fn run(args: &Args) -> Result<()> {
    let mut command = workspace::cargo();
    command.current_dir(workspace::root()).args([
        "run",
        "--release",
        "-p",
        "um-benches",
        "--bin",
        "um_bench",
        "--",
    ]);
    if args.quick {
        command.arg("--quick");
    }
    if args.sim {
        command.arg("--sim");
    }
    for name in &args.only {
        command.arg("--only").arg(name);
    }
    if let Some(rounds) = args.rounds {
        command.arg("--rounds").arg(rounds.to_string());
    }
    if let Some(out) = &args.out {
        command.arg("--out").arg(std::path::absolute(out)?);
    }
    workspace::run(&mut command)
}
