//! A stack of layers larger than a budget of device memory, forward and backward: by a plan, by working sets, and by four hand-written recipes.

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use um_examples::layers::arena::{Homes, Layers};
use um_examples::layers::recipes::{Data, RECIPES};
use um_examples::layers::{Shape, Stack};
use um_examples::machine::{Machine, MachineArgs, run_on};
use um_examples::{Failure, say};
use um_residency::Report;

/// Runs a stack of layers that is larger than a budget of device memory, verifies it, and compares a plan with hand-written recipes
#[derive(Debug, Parser)]
#[command(name = "larger_than_memory", version)]
struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// Device memory for the weights, in MiB; the accumulator comes on top
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(6..=65_536))]
    budget: u64,
    /// Layers, if each has two MiB or more; otherwise fewer
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(3..=4096))]
    layers: u64,
    /// Weights in units of the budget, 0.1 to 64
    #[arg(long, value_delimiter = ',', default_value = "2", value_parser = |text: &str| number(text, 0.1..=64.0))]
    ratio: Vec<f64>,
    /// Computing time of a layer in units of its transfer, 0 to 16
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = |text: &str| number(text, 0.0..=16.0))]
    compute: Vec<f64>,
    /// The homes of the weights in working sets and plans; the recipes always have pinned memory
    #[arg(long, value_enum, default_value_t = Homes::Pinned)]
    homes: Homes,
    /// Passes of each measurement; the first two are not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=1000))]
    passes: u64,
    /// Print the plan's passes beside its prediction
    #[arg(long)]
    report: bool,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the kernels and copies of the last row's planned passes with their times as JSON (a trace of cuda-um-trace); the profiler makes
    /// them slower
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    trace: Option<PathBuf>,
}

/// The figures of a ratio and a computing time. Times in milliseconds.
#[derive(Serialize)]
struct Row {
    ratio: f64,
    compute: f64,
    layer_bytes: usize,
    layers: usize,
    launches: usize,
    budget_bytes: u64,
    peak_bytes: u64,
    in_bytes: u64,
    predicted_in_bytes: u64,
    predicted_ms: f64,
    planned_ms: f64,
    working_sets_ms: f64,
    recipes_ms: Vec<(&'static str, f64)>,
    /// The time of the plan in units of the larger one of its transfers and of computing with all layers on the device.
    of_bound: f64,
    /// How many times faster the plan is than the double buffer, and than the best recipe that keeps the budget.
    over_double_buffer: f64,
    over_best: f64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    run_on(args.machine.runtime, "larger_than_memory", |machine| {
        say!("{}", machine.describe());
        run(&args, machine)
    })
}

fn run(args: &Args, machine: &Machine) -> Result<(), Failure> {
    let all = args.ratio.len() * args.compute.len();
    let progress = ProgressBar::new((all * (RECIPES.len() + 2)) as u64);
    progress.set_draw_target(ProgressDrawTarget::stderr());
    progress.set_style(ProgressStyle::with_template(
        "{msg:<20} {wide_bar} {pos}/{len}",
    )?);
    say!(
        "ratio compute    planned  predicted  sets only   all    double   prefix   mapped  of bound  x double  x best"
    );
    let mut rows = Vec::new();
    for &ratio in &args.ratio {
        for &compute in &args.compute {
            let (row, report) = row(args, machine, (ratio, compute), &progress)?;
            progress.suspend(|| print(&row));
            if args.report {
                progress.suspend(|| say!("{report}"));
            }
            rows.push(row);
        }
    }
    progress.finish_and_clear();
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    Ok(())
}

/// A number within a range. NaN is in none.
fn number(text: &str, allowed: RangeInclusive<f64>) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| {
            let (least, most) = allowed.into_inner();
            format!("expected {least} to {most}")
        })
}

/// The sizes for a ratio, in whole slots of the arena.
fn shape(args: &Args, ratio: f64) -> Result<Shape, Failure> {
    let bytes = (args.budget << 20) as f64 * ratio;
    let slots = (bytes / args.layers as f64 / f64::from(2 << 20))
        .round()
        .max(1.0) as usize;
    let len = slots * ((2 << 20) / size_of::<f32>());
    let layers = bytes / (len * size_of::<f32>()) as f64;
    let shape = Shape {
        layers: layers.round().max(1.0) as usize,
        len,
        launches: 1,
    };
    if shape.layer_bytes() as u64 > (args.budget << 20) / 3 {
        return Err(format!(
            "--budget {} MiB has no room for three of {} layers: use more layers",
            args.budget, args.layers
        )
        .into());
    }
    Ok(shape)
}

fn row(
    args: &Args,
    machine: &Machine,
    (ratio, compute): (f64, f64),
    progress: &ProgressBar,
) -> Result<(Row, Report), Failure> {
    let mut shape = shape(args, ratio)?;
    let passes = args.passes as usize;
    let step = |name: &'static str| {
        progress.set_message(name);
        progress.inc(1);
    };
    let budget_bytes = (args.budget << 20) + 2 * shape.layer_bytes() as u64;
    // The rate is that of the cost model; the plan uses a measured one.
    let rate = machine.device().cost_model().pinned_rate;
    let launch = Stack::new(&machine.backend, shape)?.launch_time()?;
    let wanted = compute * shape.layer_bytes() as f64 / rate / launch.as_secs_f64();
    shape.launches = (wanted.round() as usize).clamp(1, 10_000);
    let stack = Stack::new(&machine.backend, shape)?;
    let mut layers = Layers::new(&stack, budget_bytes, args.homes)?;
    step("working sets");
    let unplanned = layers.unplanned(passes)?;
    step("plan");
    let planned = match &args.trace {
        None => layers.planned(passes),
        Some(file) => {
            let (planned, trace) = machine.backend.profile(|| layers.planned(passes))?;
            std::fs::write(file, trace.to_json())?;
            planned
        }
    }?;
    drop(layers);
    let data = Data {
        weights: (0..shape.layers)
            .map(|layer| stack.weights(layer))
            .collect::<Result<_, _>>()?,
        fit: ((args.budget << 20) as usize) / shape.layer_bytes(),
        passes,
    };
    let mut recipes_ms = Vec::new();
    for (name, recipe) in RECIPES {
        step(name);
        recipes_ms.push((name, recipe(&stack, &data, passes)?.as_secs_f64() * 1e3));
    }
    let planned_ms = planned.time.as_secs_f64() * 1e3;
    let prediction = &planned.report.prediction;
    let link_ms = 1e3
        * match args.homes {
            Homes::Pinned | Homes::Unified => planned.link.in_seconds(prediction.in_bytes),
            Homes::File => prediction.in_seconds,
        };
    // With every layer on the device, the budget is not kept, unless all fit.
    let fits = data.fit >= shape.layers;
    let best = recipes_ms
        .iter()
        .skip(usize::from(!fits))
        .map(|(_, ms)| *ms);
    let row = Row {
        ratio,
        compute,
        layer_bytes: shape.layer_bytes(),
        layers: shape.layers,
        launches: shape.launches,
        budget_bytes,
        peak_bytes: planned.peak_bytes,
        in_bytes: planned.report.passes.last().map_or(0, |pass| pass.in_bytes),
        predicted_in_bytes: prediction.in_bytes,
        predicted_ms: prediction.seconds * 1e3,
        planned_ms,
        working_sets_ms: unplanned.as_secs_f64() * 1e3,
        of_bound: planned_ms / link_ms.max(recipes_ms[0].1),
        over_double_buffer: recipes_ms[1].1 / planned_ms,
        over_best: best.fold(f64::INFINITY, f64::min) / planned_ms,
        recipes_ms,
    };
    Ok((row, planned.report))
}

fn print(row: &Row) {
    let recipes: Vec<_> = row
        .recipes_ms
        .iter()
        .map(|(_, ms)| format!("{ms:8.3}"))
        .collect();
    say!(
        "{:5} {:7} {:10.3} {:10.3} {:10.3} {} {:9.3} {:9.2} {:7.2}",
        row.ratio,
        row.compute,
        row.planned_ms,
        row.predicted_ms,
        row.working_sets_ms,
        recipes.join(" "),
        row.of_bound,
        row.over_double_buffer,
        row.over_best
    );
}
