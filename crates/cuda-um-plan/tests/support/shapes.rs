//! Programs of layers. The times of the steps are in relation to each other: see `with_compute`.

use cuda_um_plan::{Access, BufferSpec, Program, Repeat, Role, SLOT_BYTES, Step, Use};

fn buffer(name: String, slots: u64, role: Role) -> BufferSpec {
    BufferSpec::new(name, slots * SLOT_BYTES, role)
}

fn step(name: String, uses: &[(usize, Access)], compute_seconds: f64) -> Step {
    let uses = uses.iter().map(|&(buffer, access)| Use { buffer, access });
    Step::new(name, uses.collect(), compute_seconds)
}

/// Weights of 32 MiB, each read by one step.
pub fn forward(layers: usize) -> Program {
    let buffers = (0..layers)
        .map(|layer| buffer(format!("weights {layer}"), 16, Role::ReadOnly))
        .collect();
    let steps = (0..layers)
        .map(|layer| step(format!("layer {layer}"), &[(layer, Access::Read)], 1.0))
        .collect();
    Program::new(buffers, steps, Repeat::Cyclic)
}

/// The same weights in reverse order afterwards.
pub fn there_and_back(layers: usize) -> Program {
    let mut program = forward(layers);
    let back = program.steps.clone();
    program.steps.extend(back.into_iter().rev());
    program
}

/// Weights are read in both directions, activations are written forward and read backward, gradients are added to.
pub fn training(layers: usize) -> Program {
    let mut program = forward(layers);
    for layer in 0..layers {
        program
            .buffers
            .push(buffer(format!("activations {layer}"), 8, Role::Scratch));
    }
    for layer in 0..layers {
        program
            .buffers
            .push(buffer(format!("gradient {layer}"), 16, Role::ReadWrite));
    }
    for layer in 0..layers {
        program.steps[layer].uses.push(Use {
            buffer: layers + layer,
            access: Access::Write,
        });
        if layer > 0 {
            program.steps[layer].uses.push(Use {
                buffer: layers + layer - 1,
                access: Access::Read,
            });
        }
    }
    for layer in (0..layers).rev() {
        let uses = [
            (layer, Access::Read),
            (layers + layer, Access::Read),
            (2 * layers + layer, Access::ReadWrite),
        ];
        program
            .steps
            .push(step(format!("back {layer}"), &uses, 2.0));
    }
    program
}

/// The program with this time for all steps together.
pub fn with_compute(program: &Program, seconds: f64) -> Program {
    let mut program = program.clone();
    let units: f64 = program.steps.iter().map(|step| step.compute_seconds).sum();
    for step in &mut program.steps {
        step.compute_seconds *= seconds / units;
    }
    program
}
