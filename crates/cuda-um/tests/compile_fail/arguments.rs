//! claim 2: views that only read where a copy or a kernel writes, and types that are no arguments of a kernel.

use cuda_um::{DeviceBuffer, Kernel, LaunchConfig, Result, Stream};

fn view_as_target(
    stream: &Stream,
    source: &DeviceBuffer<u32>,
    target: &DeviceBuffer<u32>,
) -> Result<()> {
    let mut view = target.view(..)?;
    stream.copy(source, &mut view)
}

fn view_as_write_argument(
    kernel: &Kernel,
    stream: &Stream,
    config: LaunchConfig,
    buffer: &DeviceBuffer<u32>,
) -> Result<()> {
    let mut view = buffer.view(..)?;
    unsafe { kernel.launch(stream, config, (&mut view,)) }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Shape {
    rows: u32,
    columns: u32,
}

fn of_no_kind(kernel: &Kernel, stream: &Stream, config: LaunchConfig, shape: Shape) {
    unsafe { kernel.launch(stream, config, (shape, 1u32)) }.unwrap();
}

fn no_tuple(kernel: &Kernel, stream: &Stream, config: LaunchConfig) {
    unsafe { kernel.launch(stream, config, 1u32) }.unwrap();
}

fn main() {}
