//! claim 1: The host writes while a kernel reads.

use cuda_um::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn misuse(kernel: Kernel, stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&buffer,))? };
    view[0] = 1;
    Ok(())
}

fn main() {}
