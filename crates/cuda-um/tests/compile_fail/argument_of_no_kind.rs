//! A type that is no argument of a kernel.

use cuda_um::{Kernel, LaunchConfig, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
struct Shape {
    rows: u32,
    columns: u32,
}

fn launch(kernel: &Kernel, stream: &Stream, shape: Shape) {
    // SAFETY: never run.
    unsafe { kernel.launch(stream, LaunchConfig::linear(1, 1), (shape, 1u32)) }.unwrap();
}

fn alone(kernel: &Kernel, stream: &Stream) {
    // SAFETY: never run.
    unsafe { kernel.launch(stream, LaunchConfig::linear(1, 1), 1u32) }.unwrap();
}

fn main() {
    let _ = (launch, alone);
}
