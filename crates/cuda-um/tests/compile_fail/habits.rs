//! What works with a `Vec`, and not with a buffer: the messages name the way.

use cuda_um::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn cloned(buffer: &UnifiedBuffer<f32>) -> UnifiedBuffer<f32> {
    buffer.clone()
}

fn vector(kernel: &Kernel, stream: &Stream, config: LaunchConfig, vector: Vec<f32>) -> Result<()> {
    unsafe { kernel.launch(stream, config, (&vector,)) }
}

fn main() {}
