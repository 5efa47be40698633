//! A launch without `unsafe`.

use cuda_um::{Kernel, LaunchConfig, Result, Stream};

fn misuse(kernel: Kernel, stream: Stream) -> Result<()> {
    kernel.launch(&stream, LaunchConfig::linear(1, 1), ())
}

fn main() {}
