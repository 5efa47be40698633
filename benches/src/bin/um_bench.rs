//! Measures cuda-um, raw CUDA and other libraries: see docs/measuring.md.

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Parser;
use cuda_um::sys::RuntimeVersion;
use cuda_um_testkit::{Output, say};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use um_benches::measurements::{ALL, Measurement};
use um_benches::report::Report;
use um_benches::{Bench, Settings, first_use};

/// Measures cuda-um, raw CUDA and other libraries on the GPU of this machine
///
/// Writes bench.json and bench.md. Progress goes to standard error.
#[derive(Parser)]
struct Args {
    /// Predict with the simulator's cost model instead of measuring on a GPU
    #[arg(long)]
    sim: bool,
    /// Only sizes up to 16 MiB, a third of the rounds, and a quarter of the time
    #[arg(long)]
    quick: bool,
    /// Run only these measurements, given by their names or the beginnings of their names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder for the results [default: docs/results/GPU in the repository, otherwise ./results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only list the measurements, with the seconds that each takes on a GPU with all peers
    #[arg(long)]
    list: bool,
    /// Measure the first uses of fresh processes instead, each beside the first of raw CUDA
    #[arg(long)]
    first_use: bool,
    /// One of these processes
    #[arg(long, hide = true, value_name = "FIGURE")]
    first_use_of: Option<String>,
    /// Number of rounds for each size, whatever time they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let chosen = choose(&args.only)?;
    if args.list {
        let cost = |one: &Measurement| one.cost(args.quick);
        for one in &chosen {
            say!("{:<24}{:>4} s  {}", one.name, cost(one), one.what);
        }
        let all: u32 = chosen.iter().map(|one| cost(one)).sum();
        say!("together: {all} s");
        return Ok(());
    }
    let settings = Settings {
        quick: args.quick,
        rounds: args.rounds.map(|rounds| rounds as usize),
    };
    if let Some(figure) = &args.first_use_of {
        return first_use::one(figure, args.sim);
    }
    if args.first_use {
        return first_use::run(args.sim, settings);
    }
    let bench = Bench::open(args.sim, settings)?;
    eprintln!("{}, CUDA {}", bench.gpu(), bench.runtime.version());
    if args.sim {
        eprintln!("times are predictions of the simulator's cost model");
    }
    // Before the measurements, which would be lost if the files could not be written.
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| default_folder(&bench.gpu(), bench.runtime.version()));
    let files = create(&out)?;
    let measurements = chosen.iter().map(|one| one.run(&bench)).collect();
    let report = Report {
        gpu: bench.gpu(),
        cuda: bench.runtime.version().to_string(),
        driver: bench.runtime.driver_version()?.to_string(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        predicted: args.sim,
        quick: args.quick,
        peers: bench.peers.found(),
        measurements,
    };
    let written = write(&report, files);
    say!("{}", report.markdown());
    written?;
    eprintln!("written to {}", out.display());
    // Times never fail a run; errors and wrong results do.
    let failures = report.failures();
    ensure!(failures.is_empty(), "failed: {}", failures.join("; "));
    Ok(())
}

fn choose(only: &[String]) -> Result<Vec<&'static Measurement>> {
    for name in only {
        if !ALL.iter().any(|one| one.name.starts_with(name.as_str())) {
            let names: Vec<_> = ALL.iter().map(|one| one.name).collect();
            bail!("no measurement {name:?}; there are {}", names.join(", "));
        }
    }
    let chosen = |one: &&Measurement| {
        only.is_empty() || only.iter().any(|name| one.name.starts_with(name.as_str()))
    };
    Ok(ALL.iter().filter(chosen).collect())
}

/// Opens `bench.json` and `bench.md`.
fn create(out: &Path) -> Result<[Output; 2]> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let open = |name| Output::open(&out.join(name)).map_err(Error::msg);
    Ok([open("bench.json")?, open("bench.md")?])
}

fn write(report: &Report, [json, markdown]: [Output; 2]) -> Result<()> {
    let text = serde_json::to_string_pretty(report)? + "\n";
    json.write(&text).map_err(Error::msg)?;
    markdown.write(&report.markdown()).map_err(Error::msg)
}

/// `docs/results/h200-cuda-13.0`, `docs/results/simulator-h200-cuda-13.0`, or `results`.
fn default_folder(gpu: &str, cuda: RuntimeVersion) -> PathBuf {
    let results = Path::new("docs/results");
    if !results.is_dir() {
        return "results".into();
    }
    let name = format!("{gpu}-cuda-{cuda}").to_lowercase();
    let words: Vec<&str> = name
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
        .filter(|word| !["", "nvidia", "of"].contains(word))
        .collect();
    results.join(words.join("-"))
}
