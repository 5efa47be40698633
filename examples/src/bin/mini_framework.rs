//! A step of gradient descent with a tensor library of our own, the same code in every kind of memory.

use std::fmt::Write;
use std::process::ExitCode;
use um_backend::{Buffer, BufferKind, DType, Result};
use um_examples::machine::example;
use um_examples::mini_framework::{Place, Tensor};

fn main() -> ExitCode {
    example("mini_framework", |machine| {
        let mut table = String::new();
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
        let place = Place::new(&machine.backend, BufferKind::Unified)?;
        let (_, report) = place.profile(|| descent(&place))?;
        Ok(table + &report)
    })
}

/// Finds the weights of a line through points. Returns the error of the first step and of the last.
fn descent(place: &Place) -> Result<(f32, f32)> {
    let points: Vec<f32> = (0..256).flat_map(|i| [1.0, i as f32 / 256.0]).collect();
    let points = Tensor::from_slice(place, &points, &[256, 2])?;
    let goal = points.matmul(&Tensor::from_slice(place, &[2.0f32, -3.0], &[2, 1])?)?;
    let mut negative_goal = goal.clone();
    negative_goal.scale(-1.0)?; // copies the storage, which `goal` has too
    let mut weights = Tensor::zeros(place, DType::F32, &[2, 1])?;
    weights.storage().write()?.set_name("weights");
    let mut errors = Vec::new();
    for _ in 0..50 {
        let difference = points.matmul(&weights)?.add(&negative_goal)?;
        errors.push(difference.mul(&difference)?.sum()?.data::<f32>()?[0]);
        let mut step = points.transpose(0, 1).matmul(&difference)?;
        step.scale(-1.0 / 256.0)?;
        weights.add_assign(&step)?;
    }
    debug_assert_eq!(weights.storage().read()?.typed::<f32>()?.len(), 2);
    Ok((errors[0], errors[errors.len() - 1]))
}
