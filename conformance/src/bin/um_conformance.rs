//! `um_conformance`: runs the cases on a machine, and compares two runs. See `docs/conformance.md`.

use anyhow::{Context, Error, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, ValueEnum};
use cuda_um_testkit::{Output, say};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use um_conformance::compare::{compare, report};
use um_conformance::{Choice, GPUS, Machine, Outcome, Run, VERSIONS, cases, run};

/// CUDA's rules as cases that run unchanged on the simulator and on a GPU
#[derive(Parser)]
#[command(version)]
enum Command {
    /// List the cases, each with its rule, its needs and its source
    List,
    /// Run the cases; the exit status is 1 if one fails
    Run {
        #[command(flatten)]
        machine: MachineArgs,
        /// Write the observations to this file
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Run only the cases with this text in their names
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Compare a run on a GPU with one on the simulator; the exit status is 1 if there is a difference
    Compare {
        /// The output of a run on a GPU
        gpu: PathBuf,
        /// The output of a run on the simulator
        sim: PathBuf,
        /// Write the report to this file
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Run one case in this process and print its record; `run` uses this for cases that may break the context
    #[command(hide = true)]
    Case {
        /// The case
        name: String,
        #[command(flatten)]
        machine: MachineArgs,
    },
}

#[derive(Args)]
struct MachineArgs {
    /// The runtime for the cases
    #[arg(long)]
    runtime: Runtime,
    /// The simulator's generation of GPU
    #[arg(long, default_value = "h200", value_parser = names(GPUS))]
    gpu: String,
    /// The simulator's CUDA version
    #[arg(long, default_value = "13.0", value_parser = names(VERSIONS))]
    cuda: String,
    /// The simulator's devices
    #[arg(long, default_value_t = 1)]
    devices: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Runtime {
    /// The simulator
    Sim,
    /// The CUDA runtime and the GPUs of this machine
    Cuda,
}

fn names<T>(of: &[(&'static str, T)]) -> PossibleValuesParser {
    PossibleValuesParser::new(of.iter().map(|(name, _)| *name))
}

fn named<T: Copy>(of: &[(&str, T)], name: &str) -> Result<T> {
    let found = of.iter().find(|(listed, _)| *listed == name);
    Ok(found.with_context(|| format!("no {name}"))?.1)
}

impl MachineArgs {
    fn choice(&self) -> Result<Choice> {
        Ok(match self.runtime {
            Runtime::Cuda => Choice::Cuda,
            Runtime::Sim => Choice::Sim {
                gpu: named(GPUS, &self.gpu)?,
                cuda: named(VERSIONS, &self.cuda)?,
                devices: self.devices,
            },
        })
    }
}

fn main() -> ExitCode {
    start(Command::parse()).unwrap_or_else(|error| {
        eprintln!("um_conformance: {error:#}");
        ExitCode::FAILURE
    })
}

fn start(command: Command) -> Result<ExitCode> {
    match command {
        Command::List => list(),
        Command::Run {
            machine,
            json,
            only,
        } => run_all(machine.choice()?, json.as_deref(), &only),
        Command::Compare { gpu, sim, out } => compare_runs(&gpu, &sim, &out),
        Command::Case { name, machine } => run_one(&name, machine.choice()?),
    }
}

fn list() -> Result<ExitCode> {
    for case in cases::all() {
        say!("{}\n    {}", case.name, case.rule);
        if !case.needs.is_empty() {
            say!("    needs {:?}", case.needs);
        }
        say!("    {}", case.source);
    }
    say!("{} cases", cases::all().count());
    Ok(ExitCode::SUCCESS)
}

fn run_all(choice: Choice, json: Option<&Path>, only: &str) -> Result<ExitCode> {
    // Before the cases, whose records would be lost if the file could not be written.
    let json = json.map(Output::open).transpose().map_err(Error::msg)?;
    let machine = Machine::open(choice)?;
    let program = std::env::current_exe()?;
    let run = run::run(
        &machine,
        choice,
        &program,
        only,
        |case, record| match &record.outcome {
            Outcome::Passed => eprintln!("passed   {}", case.name),
            Outcome::Skipped(why) => eprintln!("skipped  {} ({why})", case.name),
            Outcome::Failed(why) => {
                eprintln!("FAILED   {} ({})\n         {why}", case.name, case.rule)
            }
        },
    )?;
    let written = json.map_or(Ok(()), |json| run.write(json));
    let failed = run.count("failed");
    say!(
        "{}: {} cases, {} passed, {failed} failed, {} skipped",
        run.machine,
        run.records.len(),
        run.count("passed"),
        run.count("skipped")
    );
    written?;
    Ok(status(failed == 0 && !run.records.is_empty()))
}

fn run_one(name: &str, choice: Choice) -> Result<ExitCode> {
    let case = cases::all().find(|case| case.name == name);
    let case = case.with_context(|| format!("no case {name}"))?;
    let record = run::run_here(&Machine::open(choice)?, case);
    say!("{}", record.to_line()?);
    Ok(ExitCode::SUCCESS)
}

fn compare_runs(gpu: &Path, sim: &Path, out: &Path) -> Result<ExitCode> {
    let (gpu, sim) = (Run::read(gpu)?, Run::read(sim)?);
    let comparison = compare(&gpu, &sim);
    fs::write(out, report(&gpu, &sim, &comparison))
        .with_context(|| format!("cannot write {}", out.display()))?;
    for fault in &comparison.faults {
        // Texts from other machines may contain any character.
        eprintln!("{}", fault.replace(char::is_control, " "));
    }
    say!(
        "{} cases; {} differ; {} faults",
        gpu.records.len(),
        comparison.cases,
        comparison.faults.len()
    );
    Ok(status(comparison.faults.is_empty()))
}

fn status(good: bool) -> ExitCode {
    ExitCode::from(u8::from(!good))
}
