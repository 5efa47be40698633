//! Measures a cost model on the local machine: see "Calibrating" in docs/measuring.md.

use anyhow::{Context, Result};
use clap::Parser;
use cuda_um::Runtime;
use cuda_um::sys::Table;
use cuda_um_sim::Sim;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use um_benches::calibrate::{Plan, calibrate};
use um_benches::clock::Clock;
use um_kernels::calibrate::Cache;

/// Measures the cost of moving memory on the GPU of this machine, and writes it as a cost model
///
/// Progress, and the values that could not be measured, go to standard error. Exits with 1 if there is no GPU.
#[derive(Parser)]
struct Args {
    /// File for the model [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure only the values that decide placements, within a second, and keep the model in the user's cache folder, where
    /// `CostModel::of_this_machine` finds it; print the file
    #[arg(long, conflicts_with_all = ["out", "quick"])]
    cache: bool,
    /// Measure nothing; print the file and the source of the model in the user's cache folder
    #[arg(long, conflicts_with_all = ["out", "quick", "cache"])]
    show: bool,
    /// Pieces of 16 MiB instead of 128, and fewer samples
    #[arg(long)]
    quick: bool,
    /// Measure the simulator's virtual clock (CUDA_UM_SIM_GPU selects the GPU): a test of the calibration
    #[arg(long)]
    sim: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_calibrate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let (table, clock) = if args.sim {
        um_kernels::sim::register();
        let sim = Sim::from_env()?;
        (sim.table(), Clock::Simulated(sim))
    } else {
        let table = cuda_um::sys::load()
            .context("no CUDA runtime, so no GPU to calibrate; --sim measures the simulator")?;
        (table, Clock::wall())
    };
    if args.cache || args.show {
        return kept(&table, clock, args.cache);
    }
    let plan = if args.quick {
        Plan::MACHINE
    } else {
        Plan::FULL
    };
    let calibration = calibrate(&table, clock, plan, &mut |step| {
        eprintln!("measuring: {step}")
    })?;
    for note in &calibration.notes {
        eprintln!("{note}");
    }
    let built_in = calibration.built_in();
    if !built_in.is_empty() {
        let rest = built_in.join(", ");
        eprintln!("not measured, built-in values: {rest}");
    }
    let text = calibration.model.to_json();
    match &args.out {
        Some(path) => {
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
            eprintln!("written to {}", path.display());
        }
        None => print!("{text}"),
    }
    Ok(())
}

/// Prints the file and the source of the model in the cache folder, after measuring it if asked to.
fn kept(table: &Arc<Table>, clock: Clock, measures: bool) -> Result<()> {
    let runtime = Runtime::from_table(Arc::clone(table))?;
    let device = runtime.device(0).context("no GPU to calibrate")?;
    let cache = Cache::of_user()?;
    let path = cache.path(&device)?;
    let model = match measures {
        true => cache.measure(&device, &clock.into())?,
        false => cache.load(&device)?.with_context(|| {
            format!(
                "{} has no model of this machine; --cache measures it",
                path.display()
            )
        })?,
    };
    println!("{}\n{}", path.display(), model.source);
    Ok(())
}
