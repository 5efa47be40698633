//! A profile of one operation of a small tensor library; and gradient descent, the same code in every kind of memory.

use std::cell::RefCell;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;
use um_backend::{BufferKind, CudaError, DType, Result};
use um_examples::machine::example;
use um_examples::mini_framework::{Place, Tensor};

const STEPS: u32 = 50;

/// A run of gradient descent.
struct Descent {
    /// The error of each step.
    errors: Vec<f32>,
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
            let (direct, graph) = (descent(&place, false)?, descent(&place, true));
            let (before, after) = (direct.errors[0], direct.errors[STEPS as usize - 1]);
            if after * 50.0 > before {
                return Err(format!("{kind}: the error was {before}, and is {after}").into());
            }
            writeln!(
                table,
                "{kind:<8} error {before:.3} before, {after:.3} after {STEPS} steps"
            )?;
            match graph {
                Ok(graph) if direct.errors != graph.errors => {
                    return Err(format!("{kind}: a graph computes other errors").into());
                }
                Ok(graph) => writeln!(
                    table,
                    "         as a graph: the same bits; {:.0} steps/s, and {:.0} without",
                    graph.steps_per_second, direct.steps_per_second
                )?,
                // The CPU computes with memory of the host.
                Err(refused @ CudaError::Capture { .. }) => {
                    writeln!(table, "         as a graph: {refused}")?
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(table)
    })
}

/// Ones that the host writes, and a kernel adds.
fn sum_of_ones(place: &Place) -> Result<f32> {
    let ones = Tensor::zeros(place, DType::F32, &[1 << 20])?;
    ones.storage().write()?.bytes_mut().set_name("ones");
    ones.storage().host_mut::<f32>()?.fill(1.0);
    let sum = ones.sum()?;
    sum.storage().write()?.bytes_mut().set_name("sum");
    Ok(sum.data::<f32>()?[0])
}

/// Finds the weights of a line through points: each step as it is, or as a launch of a graph.
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
    let mut captured = match as_graph {
        true => Some(place.backend().capture(|_| step())?),
        false => None,
    };
    let (mut errors, start) = (Vec::new(), Instant::now());
    for _ in 0..STEPS {
        match &mut captured {
            Some(captured) => captured.launch()?,
            None => step()?,
        }
        errors.push(error.borrow().data::<f32>()?[0]);
    }
    Ok(Descent {
        errors,
        steps_per_second: f64::from(STEPS) / start.elapsed().as_secs_f64(),
    })
}
