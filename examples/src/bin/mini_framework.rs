//! A profile of one operation of a small tensor library; and gradient descent, the same code in every kind of memory.

use std::cell::RefCell;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;
use um_backend::{BufferKind, DType, Result};
use um_examples::machine::example;
use um_examples::mini_framework::{Place, Tensor};

const STEPS: u32 = 50;

/// A run of gradient descent.
struct Descent {
    /// The error of each step.
    errors: Vec<f32>,
    /// The steps that were launches of the graph.
    replayed: u64,
    steps_per_second: f64,
}

fn main() -> ExitCode {
    example("mini_framework", |machine| {
        // First: on a GPU, CUPTI does not report managed memory that is older than its first start.
        let place = Place::new(&machine.backend, BufferKind::Unified)?;
        let (sum, report) = place.profile(|| sum_of_ones(&place))?;
        let mut table = format!("the sum is {sum}\n{report}\n");
        for kind in BufferKind::ALL {
            let place = Place::new(&machine.backend, kind)?;
            let (direct, graph) = (descent(&place, false)?, descent(&place, true)?);
            let (before, after) = (direct.errors[0], direct.errors[STEPS as usize - 1]);
            if after * 50.0 > before {
                return Err(format!("{kind}: the error was {before}, and is {after}").into());
            }
            if direct.errors != graph.errors {
                return Err(format!("{kind}: a graph computes other errors").into());
            }
            writeln!(
                table,
                "{kind:<8} error {before:.3} before, {after:.3} after {STEPS} steps"
            )?;
            writeln!(
                table,
                "         as a graph: {} of {STEPS} steps, the same bits; {:.0} steps/s, and {:.0} without",
                graph.replayed, graph.steps_per_second, direct.steps_per_second
            )?;
        }
        Ok(table)
    })
}

/// Ones that the host writes, and a kernel adds.
fn sum_of_ones(place: &Place) -> Result<f32> {
    let ones = Tensor::zeros(place, DType::F32, &[1 << 20])?;
    ones.storage().write()?.set_name("ones");
    ones.storage().host_mut::<f32>()?.fill(1.0);
    let sum = ones.sum()?;
    sum.storage().write()?.set_name("sum");
    Ok(sum.data::<f32>()?[0])
}

/// Finds the weights of a line through points: each step as it is, or as a graph that the first one records.
fn descent(place: &Place, as_graph: bool) -> Result<Descent> {
    let points: Vec<f32> = (0..256).flat_map(|i| [1.0, i as f32 / 256.0]).collect();
    let points = Tensor::from_vec(place, points, &[256, 2])?;
    let goal = points.matmul(&Tensor::from_slice(place, &[2.0f32, -3.0], &[2, 1])?)?;
    let mut negative_goal = goal.clone();
    negative_goal.scale(-1.0)?; // copies the storage, which `goal` has too
    let mut weights = Tensor::zeros(place, DType::F32, &[2, 1])?;
    let error = RefCell::new(goal);
    let mut step = || {
        let difference = points.matmul(&weights)?.add(&negative_goal)?;
        error.replace(difference.mul(&difference)?.sum()?);
        let mut step = points.transpose(0, 1).matmul(&difference)?;
        step.scale(-1.0 / 256.0)?;
        weights.add_assign(&step)
    };
    let (mut graph, mut errors) = (place.graph(), Vec::new());
    let start = Instant::now();
    for _ in 0..STEPS {
        match as_graph {
            true => graph.run(&[], &mut step)?,
            false => step()?,
        }
        errors.push(error.borrow().data::<f32>()?[0]);
    }
    Ok(Descent {
        errors,
        replayed: graph.replayed(),
        steps_per_second: f64::from(STEPS) / start.elapsed().as_secs_f64(),
    })
}
