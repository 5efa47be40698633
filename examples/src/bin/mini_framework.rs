//! A profile of one operation of a small tensor library; and gradient descent, the same code in every kind of memory.

use std::fmt::Write;
use std::process::ExitCode;
use um_backend::{BufferKind, DType, Result};
use um_examples::machine::example;
use um_examples::mini_framework::{Place, Tensor};

fn main() -> ExitCode {
    example("mini_framework", |machine| {
        // First: on a GPU, CUPTI does not report managed memory that is older than its first start.
        let place = Place::new(&machine.backend, BufferKind::Unified)?;
        let (sum, report) = place.profile(|| sum_of_ones(&place))?;
        let mut table = format!("the sum is {sum}\n{report}\n");
        for kind in BufferKind::ALL {
            let place = Place::new(&machine.backend, kind)?;
            let (before, after) = descent(&place)?;
            if after * 50.0 > before {
                return Err(format!("{kind}: the error was {before}, and is {after}").into());
            }
            writeln!(
                table,
                "{kind:<8} error {before:.3} before, {after:.3} after 50 steps"
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

/// Finds the weights of a line through points. Returns the error of the first step and of the last.
fn descent(place: &Place) -> Result<(f32, f32)> {
    let points: Vec<f32> = (0..256).flat_map(|i| [1.0, i as f32 / 256.0]).collect();
    let points = Tensor::from_vec(place, points, &[256, 2])?;
    let goal = points.matmul(&Tensor::from_slice(place, &[2.0f32, -3.0], &[2, 1])?)?;
    let mut negative_goal = goal.clone();
    negative_goal.scale(-1.0)?; // copies the storage, which `goal` has too
    let mut weights = Tensor::zeros(place, DType::F32, &[2, 1])?;
    let mut errors = Vec::new();
    for _ in 0..50 {
        let difference = points.matmul(&weights)?.add(&negative_goal)?;
        errors.push(difference.mul(&difference)?.sum()?.data::<f32>()?[0]);
        let mut step = points.transpose(0, 1).matmul(&difference)?;
        step.scale(-1.0 / 256.0)?;
        weights.add_assign(&step)?;
    }
    Ok((errors[0], errors[errors.len() - 1]))
}
