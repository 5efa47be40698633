//! Four hand-written ways to run a stack of layers.

use crate::Failure;
use crate::layers::Stack;
use cuda_um::{DeviceBuffer, PinnedBuffer, Stream};
use std::time::Duration;

/// A recipe, and its name.
pub type Recipe = (
    &'static str,
    fn(&Stack<'_>, &Data, usize) -> Result<Duration, Failure>,
);

/// All recipes.
pub const RECIPES: [Recipe; 4] = [
    ("all on the device", all),
    ("double buffer", double_buffer),
    ("prefix and stream", prefix),
    ("mapped", mapped),
];

/// The weights, and the number of layers that fit into the budget.
pub struct Data {
    /// The weights in pinned memory.
    pub weights: Vec<PinnedBuffer<f32>>,
    /// The layers that fit beside the accumulator.
    pub fit: usize,
    /// The passes of a measurement.
    pub passes: usize,
}

/// Every layer is on the device: more memory than the budget, as a reference.
fn all(stack: &Stack<'_>, data: &Data, passes: usize) -> Result<Duration, Failure> {
    stream_behind(stack, data, passes, data.weights.len())
}

/// Two buffers: one is copied to while the other is used. Every pass copies every layer.
fn double_buffer(stack: &Stack<'_>, data: &Data, passes: usize) -> Result<Duration, Failure> {
    stream_behind(stack, data, passes, 0)
}

/// The first layers stay on the device, and the others go through two buffers.
fn prefix(stack: &Stack<'_>, data: &Data, passes: usize) -> Result<Duration, Failure> {
    stream_behind(stack, data, passes, data.fit.saturating_sub(2))
}

/// The kernels read pinned memory over the link.
fn mapped(stack: &Stack<'_>, data: &Data, passes: usize) -> Result<Duration, Failure> {
    let (idle, mut sum) = (stack.zeros()?, stack.zeros()?);
    let time = stack.time(passes, || {
        for layer in stack.shape.steps() {
            stack.step(&data.weights[layer], idle.as_view(), sum.as_view_mut())?;
        }
        Ok(())
    })?;
    stack.shape.check(&sum.to_vec()?, passes)?;
    Ok(time)
}

/// A buffer with its own stream of copies, so that a kernel waits only for its own copy.
struct Turn {
    memory: DeviceBuffer<f32>,
    stream: Stream,
}

fn stream_behind(
    stack: &Stack<'_>,
    data: &Data,
    passes: usize,
    stay: usize,
) -> Result<Duration, Failure> {
    let (idle, mut sum) = (stack.zeros()?, stack.zeros()?);
    let resident = data.weights.iter().take(stay).map(|weights| {
        let mut memory = stack.zeros()?;
        stack.stream.copy(weights, &mut memory)?;
        Ok(memory)
    });
    let resident = resident.collect::<Result<Vec<_>, Failure>>()?;
    let turn = || -> Result<Turn, Failure> {
        let (memory, stream) = (stack.zeros()?, stack.device().create_stream()?);
        Ok(Turn { memory, stream })
    };
    let mut turns = [turn()?, turn()?];
    let steps: Vec<usize> = stack.shape.steps().collect();
    let streamed: Vec<usize> = steps
        .iter()
        .copied()
        .filter(|&layer| layer >= stay)
        .collect();
    let time = stack.time(passes, || {
        // The next copy is enqueued before the step that it overlaps.
        let copy = |turns: &mut [Turn; 2], next: usize| -> Result<(), Failure> {
            if let Some(&layer) = streamed.get(next) {
                let Turn { memory, stream } = &mut turns[next % 2];
                stream.copy(&data.weights[layer], memory)?;
            }
            Ok(())
        };
        let mut next = 0;
        copy(&mut turns, 0)?;
        for &layer in &steps {
            if let Some(weights) = resident.get(layer) {
                stack.step(weights, idle.as_view(), sum.as_view_mut())?;
                continue;
            }
            copy(&mut turns, next + 1)?;
            stack.step(&turns[next % 2].memory, idle.as_view(), sum.as_view_mut())?;
            next += 1;
        }
        Ok(())
    })?;
    stack.shape.check(&sum.to_vec()?, passes)?;
    Ok(time)
}
