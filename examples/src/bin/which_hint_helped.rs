//! The same work without advice and prefetches, with prefetches, with each advice, and with stated access patterns: migrations,
//! and costs.
//!
//! A round: the host writes `activations`, a kernel adds `weights` to them, and the host reads both. The weights are written once.

use clap::Parser;
use cuda_um::{AccessPattern, Advice, Location, Stream, UnifiedBuffer, UnifiedOptions};
use cuda_um_testkit::say;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use um_auto::AutoPrefetch;
use um_backend::profile::{
    profile,
    trace::{MigrationReport, html},
};
use um_examples::Failure;
use um_examples::machine::{Machine, MachineArgs, median, run_on, us};
use um_kernels::{Saxpy, saxpy_cpu};

/// Runs the same work with each advice and prefetch in turn, and prints migrations, faults and costs
#[derive(Debug, Parser)]
#[command(name = "which_hint_helped", version)]
struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// Rounds of the work
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Elements of each of the two buffers; the default is 3 MiB
    #[arg(long, default_value_t = 786_432, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    elements: u32,
    /// Compare automatic prefetch with the variants, from the third round on (docs/choosing.md#automatic-prefetch)
    #[arg(long)]
    auto_prefetch: bool,
    /// Print the whole report of each variant
    #[arg(long)]
    reports: bool,
    /// Write a page and the trace of each variant into this folder
    #[arg(long, value_name = "FOLDER")]
    pages: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hint {
    None,
    Prefetch,
    ReadMostly,
    PreferDevice,
    PreferHost,
    AccessedBy,
    Patterns,
}

const HINTS: [(Hint, &str); 7] = [
    (Hint::None, "no hints"),
    (Hint::Prefetch, "prefetch"),
    (Hint::ReadMostly, "SetReadMostly"),
    (Hint::PreferDevice, "SetPreferredLocation, device"),
    (Hint::PreferHost, "SetPreferredLocation, host"),
    (Hint::AccessedBy, "SetAccessedBy, both"),
    (Hint::Patterns, "Auto by pattern, and prefetch"),
];

fn main() -> ExitCode {
    let args = Args::parse();
    run_on(args.machine.runtime, "which_hint_helped", |machine| {
        say!("{}", machine.describe());
        run(&args, machine)
    })
}

fn run(args: &Args, machine: &Machine) -> Result<(), Failure> {
    let saxpy = Saxpy::load(machine.device())?;
    let stream = machine.device().create_stream()?;
    // CUPTI does not report managed memory that was allocated before its first start, and the first rounds include one-time
    // costs.
    let runtime = machine.device().runtime();
    let warm_up = || Work::new(args, machine, Hint::None)?.rounds(args.rounds, &saxpy, &stream);
    profile(runtime, warm_up)?.0?;
    say!(
        "{:<30}{:>12}{:>14}{:>14}{:>12}{:>12}{:>14}",
        "",
        "a round",
        "to device",
        "to host",
        "GPU faults",
        "CPU faults",
        "avoidable"
    );
    for (hint, name) in HINTS {
        // Recording costs time, so the timed rounds and the recorded rounds are different.
        let mut work = Work::new(args, machine, hint)?;
        let time = machine.time(|| work.rounds(args.rounds, &saxpy, &stream))?;
        let (done, trace) = profile(runtime, || -> Result<(), Failure> {
            Work::new(args, machine, hint)?.rounds(args.rounds, &saxpy, &stream)
        })?;
        done?;
        let report = MigrationReport::of(&trace, &machine.device().cost_model());
        say!("{}", row(name, time / args.rounds, &report)?);
        if hint == Hint::Patterns {
            say!("    weights: {}", work.weights.placement());
            say!("    activations: {}", work.activations.placement());
        }
        if args.reports {
            say!("{report}");
        } else if let Some(finding) = report.findings.first() {
            say!("    {finding}");
        }
        if let Some(folder) = &args.pages {
            let file = name
                .replace([' ', ','], "-")
                .replace("--", "-")
                .to_lowercase();
            write(folder, &format!("{file}.html"), &html(&trace, &report))?;
            write(folder, &format!("{file}.json"), &trace.to_json())?;
        }
    }
    if args.auto_prefetch {
        compare(args, machine, &saxpy, &stream)?;
    }
    say!(
        "A round: the host writes 1 of 2 buffers of {:.1} MiB, a kernel reads both and writes it, the host reads both.\n\
         Every result was compared with the CPU's.",
        f64::from(args.elements) * 4.0 / f64::from(1 << 20)
    );
    Ok(())
}

/// Times the rounds from the third on, for each variant and for automatic prefetch of the work without hints.
fn compare(args: &Args, machine: &Machine, saxpy: &Saxpy, stream: &Stream) -> Result<(), Failure> {
    let rounds = args.rounds.max(6);
    let late = |hint| -> Result<Duration, Failure> {
        let mut work = Work::new(args, machine, hint)?;
        let mut times = Vec::new();
        for round in 0..rounds {
            times.push(machine.time(|| {
                work.round(round, saxpy, stream)?;
                Ok(stream.synchronize()?)
            })?);
        }
        Ok(median(times.split_off(2)))
    };
    let mut best = (Duration::MAX, "");
    for (hint, name) in HINTS {
        let time = late(hint)?;
        say!("    a round from the third on, {name}: {}", us(time));
        best = best.min((time, name));
    }
    let device = machine.device();
    let auto = match machine.backend.simulator().cloned() {
        Some(sim) => AutoPrefetch::start_with_clock(device, move || sim.now())?,
        None => AutoPrefetch::start(device)?,
    };
    let time = late(Hint::None)?;
    say!("{}", auto.stop());
    say!(
        "a round from the third on with automatic prefetch: {}; the best by hand: {} ({}); ratio {:.3}",
        us(time),
        us(best.0),
        best.1,
        time.as_secs_f64() / best.0.as_secs_f64()
    );
    Ok(())
}

fn row(name: &str, time: Duration, report: &MigrationReport) -> Result<String, Failure> {
    let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20));
    let total = &report.total;
    Ok(format!(
        "{name:<30}{:>12}{:>14}{:>14}{:>12}{:>12}{:>14}",
        us(time),
        mib(total.to_device_bytes),
        mib(total.to_host_bytes),
        total.gpu_faults,
        total.cpu_faults,
        us(report.avoidable.time),
    ))
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(file);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

struct Work {
    hint: Hint,
    weights: UnifiedBuffer<f32>,
    activations: UnifiedBuffer<f32>,
    /// The weights, and the expected activations.
    values: Vec<f32>,
    expected: Vec<f32>,
}

impl Work {
    fn new(args: &Args, machine: &Machine, hint: Hint) -> Result<Self, Failure> {
        let (device, len) = (machine.device(), args.elements as usize);
        let options = |pattern| match hint {
            Hint::Patterns => UnifiedOptions::default().pattern(pattern),
            _ => UnifiedOptions::default(),
        };
        let values: Vec<f32> = (0..len).map(|i| (i % 1999) as f32 - 999.0).collect();
        let mut weights =
            UnifiedBuffer::from_slice_with(device, &values, options(AccessPattern::ReadMostly))?;
        let mut activations =
            UnifiedBuffer::<f32>::zeroed_with(device, len, options(AccessPattern::ReadBack))?;
        weights.set_name("weights");
        activations.set_name("activations");
        let here = Location::from(device);
        for buffer in [&weights, &activations] {
            match hint {
                Hint::None | Hint::Prefetch | Hint::Patterns => {}
                Hint::ReadMostly => buffer.advise(Advice::SetReadMostly)?.require()?,
                Hint::PreferDevice => buffer
                    .advise(Advice::SetPreferredLocation(here))?
                    .require()?,
                Hint::PreferHost => {
                    buffer
                        .advise(Advice::SetPreferredLocation(Location::Host))?
                        .require()?;
                }
                Hint::AccessedBy => {
                    buffer.advise(Advice::SetAccessedBy(here))?.require()?;
                    buffer
                        .advise(Advice::SetAccessedBy(Location::Host))?
                        .require()?;
                }
            }
        }
        Ok(Self {
            hint,
            weights,
            activations,
            values,
            expected: vec![0.0; len],
        })
    }

    fn rounds(&mut self, rounds: u32, saxpy: &Saxpy, stream: &Stream) -> Result<(), Failure> {
        (0..rounds).try_for_each(|round| self.round(round, saxpy, stream))
    }

    fn round(&mut self, round: u32, saxpy: &Saxpy, stream: &Stream) -> Result<(), Failure> {
        if round == 0 {
            // The zeros are on the device.
            self.prefetch(Location::Host, stream)?;
        }
        self.expected.fill(round as f32);
        self.activations.host_mut()?.copy_from_slice(&self.expected);
        self.prefetch(Location::Device(stream.device().ordinal()), stream)?;
        saxpy.launch(stream, 2.0, &self.weights, &mut self.activations)?;
        saxpy_cpu(2.0, &self.values, &mut self.expected);
        self.prefetch(Location::Host, stream)?;
        if *self.activations.host()? != *self.expected || *self.weights.host()? != *self.values {
            return Err(format!("round {round}: the results are wrong").into());
        }
        Ok(())
    }

    fn prefetch(&self, to: Location, stream: &Stream) -> Result<(), Failure> {
        // A pattern chooses the kind of memory; only managed memory needs prefetches.
        if matches!(self.hint, Hint::Prefetch | Hint::Patterns) {
            for buffer in [&self.weights, &self.activations] {
                if buffer.is_managed() {
                    buffer.prefetch_on(to, stream)?.require()?;
                }
            }
        }
        Ok(())
    }
}
