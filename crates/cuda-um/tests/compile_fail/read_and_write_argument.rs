//! claim 2: One buffer, read and written by one launch.

use cuda_um::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn misuse(kernel: Kernel, stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<()> {
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&buffer, &mut buffer)) }
}

fn main() {}
