//! claim 2: A view that only reads as an argument that a kernel writes.

use cuda_um::{DeviceBuffer, Kernel, LaunchConfig, Result, Stream};

fn misuse(kernel: &Kernel, stream: &Stream, config: LaunchConfig, buffer: &DeviceBuffer<u32>) -> Result<()> {
    let mut view = buffer.view(..)?;
    unsafe { kernel.launch(stream, config, (&mut view,)) }
}

fn main() {}
