//! One power iteration, the same code over unified, device and host memory: the largest eigenvalue of a matrix.

use std::fmt::Write;
use std::process::ExitCode;
use um_backend::BufferKind;
use um_examples::Failure;
use um_examples::machine::{Machine, example};
use um_examples::tiny_tensor::{Kernels, Tensor};

/// Symmetric; its largest eigenvalue is 2 + √2, with the eigenvector (1, √2, 1).
const MATRIX: [f32; 9] = [2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0];

fn main() -> ExitCode {
    example("tiny_tensor", |machine| {
        let kernels = Kernels::load(machine.backend.device())?;
        let mut table = String::new();
        for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Host] {
            let (eigenvalue, residual, tensor) = power_iteration(machine, kind, &kernels)?;
            if (eigenvalue - (2.0 + 2f32.sqrt())).abs() > 1e-5 || residual > 1e-5 {
                return Err(format!("{kind}: {eigenvalue}, residual {residual}").into());
            }
            writeln!(
                table,
                "{kind:<8} largest eigenvalue {eigenvalue:.6}, residual {residual:.1e}; {tensor:?}"
            )?;
        }
        Ok(table)
    })
}

/// The eigenvalue, the residual of its vector, and the vector.
fn power_iteration(
    machine: &Machine,
    kind: BufferKind,
    kernels: &Kernels,
) -> Result<(f32, f32, Tensor), Failure> {
    let tensor = |shape: (usize, usize), values: &[f32]| {
        Tensor::new(
            machine.backend.create(kind, shape.0 * shape.1)?,
            shape,
            values,
        )
    };
    let matrix = tensor((3, 3), &MATRIX)?;
    let mut vector = tensor((3, 1), &[1.0, 0.0, 0.0])?;
    let mut eigenvalue = 0.0;
    for _ in 0..40 {
        vector = matrix.matmul(&vector)?;
        eigenvalue = length(&vector)?;
        vector = vector.scaled(1.0 / eigenvalue, kernels)?;
    }
    let mut difference = matrix.matmul(&vector)?;
    difference.add_scaled(-eigenvalue, &vector, kernels)?;
    Ok((eigenvalue, length(&difference)?, vector))
}

fn length(vector: &Tensor) -> Result<f32, Failure> {
    Ok(vector.to_vec()?.iter().map(|x| x * x).sum::<f32>().sqrt())
}
