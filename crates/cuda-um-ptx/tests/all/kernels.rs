//! The kernels of `kernels/ptx`, against Rust.

use cuda_um_ptx::Launch;

use crate::support::{Arrays, Parameters, program};

fn kernel(file: &str, name: &str) -> cuda_um_ptx::Program {
    let path = format!(
        "{}/../../kernels/ptx/{file}.ptx",
        env!("CARGO_MANIFEST_DIR")
    );
    program(&std::fs::read_to_string(path).unwrap(), name)
}

#[test]
fn scale_and_saxpy() {
    let values: Vec<f32> = (0..1000).map(|i| i as f32 * 0.37 - 100.0).collect();
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&vec![0f32; 1000]), arrays.add(&values));
    // scale_f32(in, out, factor, len)
    let parameters = Parameters::default()
        .with(from)
        .with(out)
        .with(2.5f32)
        .with(1000u64)
        .0;
    let launch = Launch {
        grid: [3, 1, 1],
        block: [128, 1, 1],
        parameters: &parameters,
        ..Launch::default()
    };
    kernel("scale", "scale_f32").run(&launch, &arrays).unwrap();
    let wanted: Vec<f32> = values.iter().map(|value| value * 2.5).collect();
    assert_eq!(arrays.get::<f32>(out), wanted);
}
