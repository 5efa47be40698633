//! claim 2: One buffer, written twice by one launch.

use cuda_um::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

fn misuse(kernel: Kernel, stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<()> {
    unsafe {
        kernel.launch(
            &stream,
            LaunchConfig::linear(1, 1),
            (&mut buffer, &mut buffer),
        )
    }
}

fn main() {}
