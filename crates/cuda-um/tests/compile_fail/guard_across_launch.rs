//! claim 1: A slice of the host, kept across a launch that writes the buffer.

use cuda_um::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn misuse(kernel: Kernel, stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host()?;
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&mut buffer,))? };
    Ok(view[0])
}

fn main() {}
