//! Plans for programs that are larger than their budget, beside the lower bound and the recipes of programs without a planner.
//!
//! ```text
//! cargo run --release -p cuda-um-plan --example budgets
//! ```

use cuda_um_plan::{Link, PlanBudget, Program, Recipe};
use shapes::{forward, there_and_back, training, with_compute};
use std::time::Instant;

#[path = "../tests/support/shapes.rs"]
mod shapes;

/// Sizes of a program's memory, in relation to the budget.
const SIZES: [f64; 4] = [1.14, 1.33, 2.0, 4.0];
/// Times of all steps, in relation to the time that the link needs for all buffers.
const COMPUTE: [f64; 3] = [0.25, 1.0, 4.0];
/// Plans of which the fastest one counts.
const RUNS: u32 = 30;

fn main() {
    let link = Link::pcie5();
    for (title, program) in [
        ("256 layers of 32 MiB, forward", forward(256)),
        (
            "96 layers of 32 MiB, forward and backward, with activations and gradients",
            training(96),
        ),
        (
            "96 layers of 32 MiB, forward and backward, weights alone",
            there_and_back(96),
        ),
    ] {
        table(title, &program, link);
    }
    speed(link);
}

fn table(title: &str, program: &Program, link: Link) {
    let all: u64 = program.buffers.iter().map(|buffer| buffer.bytes).sum();
    println!("## {title}, {} MiB\n", all >> 20);
    println!("Times of recipes are in relation to the plan's.\n");
    println!(
        "| M/B | compute/link | in/M | out/M | bound in/M | out/M | time, ms | / bound | / max(own bytes, compute) | double buffer | pinned prefix | LRU |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for size in SIZES {
        for ratio in COMPUTE {
            let program = with_compute(program, ratio * all as f64 / link.in_bytes_per_second);
            let budget = PlanBudget::new((all as f64 / size) as u64);
            row(&program, budget, link, all, size, ratio);
        }
    }
    println!();
}

fn row(program: &Program, budget: PlanBudget, link: Link, all: u64, size: f64, ratio: f64) {
    let plan = program.solve(budget, link).expect("the steps fit");
    plan.check(program).expect("a valid plan");
    let prediction = plan.prediction();
    let part = |bytes: u64| bytes as f64 / all as f64;
    let own = (prediction.in_bytes as f64 / link.in_bytes_per_second)
        .max(prediction.out_bytes as f64 / link.out_bytes_per_second)
        .max(prediction.compute_seconds);
    print!(
        "| {size} | {ratio} | {:.3} | {:.3} | {:.3} | {:.3} | {:.1} | {:.3} | {:.3} |",
        part(prediction.in_bytes),
        part(prediction.out_bytes),
        part(prediction.bound.in_bytes),
        part(prediction.bound.out_bytes),
        prediction.seconds * 1e3,
        prediction.seconds / prediction.bound.seconds,
        prediction.seconds / own,
    );
    for recipe in [
        Recipe::DoubleBuffer,
        Recipe::PinnedPrefix,
        Recipe::LeastRecentlyUsed,
    ] {
        let other = program.recipe(recipe, budget, link).expect("the steps fit");
        other.check(program).expect("a valid plan");
        print!(" {:.2} |", other.prediction().seconds / prediction.seconds);
    }
    println!();
}

/// The time to plan 10,000 uses.
fn speed(link: Link) {
    println!("## Time of the planner, 10,000 uses, the fastest of {RUNS}\n");
    println!("| program | M/B | ms | on a CPU in the calling thread, mean |");
    println!("|---|---|---|---|");
    for (name, layers, program) in [
        ("forward", 10_000, forward as fn(usize) -> Program),
        ("forward and backward", 5_000, there_and_back),
        ("training", 1_667, training),
    ] {
        for size in [1.33, 2.0, 4.0] {
            let program = with_compute(&program(layers), 1.0);
            let all: u64 = program.buffers.iter().map(|buffer| buffer.bytes).sum();
            let budget = PlanBudget::new((all as f64 / size) as u64);
            let (mut wall, before) = (f64::MAX, cpu_ms());
            for _ in 0..RUNS {
                let began = Instant::now();
                program.solve(budget, link).expect("the steps fit");
                wall = wall.min(began.elapsed().as_secs_f64() * 1e3);
            }
            // The system may count in steps of a few milliseconds.
            let cpu = (cpu_ms() - before) / f64::from(RUNS);
            println!("| {name} | {size} | {wall:.1} | {cpu:.1} |");
        }
    }
}

/// The time that this process has had on a CPU. Zero where the system does not tell.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e6
}
