//! The cost of recording a trace: batch recall with and without a profiler, in turn.

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use um_examples::args::{Args as RecallArgs, BufferChoice, RuntimeChoice};
use um_examples::input::Inputs;
use um_examples::machine::{median, us};
use um_examples::{Failure, batch_recall};

/// Runs batch recall on unified memory with and without a profiler, in turn, and prints the ratio of the medians
#[derive(Debug, Parser)]
#[command(name = "profile_overhead", version)]
struct Args {
    /// The runtime: auto uses the GPU if there is one, otherwise the simulator
    #[arg(long, value_enum, default_value_t = RuntimeChoice::Auto, env = "CUDA_UM_RUNTIME")]
    runtime: RuntimeChoice,
    /// Number of runs with a profiler, and of runs without
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("profile_overhead: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let trace = std::env::temp_dir().join(format!("profile-overhead-{}.json", std::process::id()));
    for (name, no_hints) in [("faulting", true), ("prefetched", false)] {
        let mut recall = RecallArgs::parse_from(["batch_recall", "--no-counters"]);
        (recall.runtime, recall.buffer) = (args.runtime, BufferChoice::Unified);
        recall.no_hints = no_hints;
        let inputs = Inputs::load(&recall)?;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..args.runs {
            for (profiled, times) in times.iter_mut().enumerate() {
                recall.trace = (profiled == 1).then(|| trace.clone());
                times.push(time(&recall, &inputs)?);
            }
        }
        let [without, with] = times.map(median);
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!(
            "batch recall, {name:<11} without a profiler {:>12}, with one {:>12}, ratio {ratio:.2}",
            us(without),
            us(with)
        );
    }
    let _ = std::fs::remove_file(&trace);
    Ok(())
}

/// Elapsed time from allocating the buffers to reading the results, without opening the device and writing the trace.
fn time(args: &RecallArgs, inputs: &Inputs) -> Result<Duration, Failure> {
    let report = batch_recall::run(args, inputs)?;
    let phases = &report.runs[0].phases_us;
    let us = phases.place + phases.compute + phases.to_vec;
    Ok(Duration::from_secs_f64(us * 1e-6))
}
