//! `cargo xtask bench`: builds the measurements and runs them on the GPU of this machine, or on the simulator.
//!
//! The compiled peers are those that `cargo xtask bench-peers` built; the others are named as skipped.

use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Sizes up to 16 MiB only, and a third of the rounds.
    #[arg(long)]
    quick: bool,
    /// Only these measurements, separated by commas; `um_bench --list` lists them.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Predict with the simulator's cost model.
    #[arg(long)]
    sim: bool,
    /// So many rounds for each size.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Folder for the results; docs/results/GPU if not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds and runs.
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
