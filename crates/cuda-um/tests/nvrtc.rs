//! `Module::compile` with NVIDIA's compiler, which `CUDA_UM_NVRTC` names (`cargo xtask real-cudart` does). Without it the test says that it
//! was skipped.
#![allow(unsafe_code, reason = "launches a kernel")]

use cuda_um::{ErrorKind, LaunchConfig, Module, UnifiedBuffer};
use cuda_um_testkit::device;

const SOURCE: &str = r#"
extern "C" __global__ void twice(float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}"#;

fn main() {
    if std::env::var_os("CUDA_UM_NVRTC").is_none() {
        return println!("skipped: CUDA_UM_NVRTC names no libnvrtc");
    }
    let (_checked, device, stream) = device();
    let module = Module::compile(&device, SOURCE, &["-DFACTOR=2"]).unwrap();
    let twice = module.kernel("twice").unwrap();
    let mut x = UnifiedBuffer::from_slice(&device, &[1.0f32, 2.0, 3.0]).unwrap();
    // SAFETY: the kernel writes the `n` elements that the buffer has.
    unsafe { twice.launch(&stream, LaunchConfig::linear(3, 32), (&mut x, 3u32)) }.unwrap();
    assert_eq!(*x.host().unwrap(), [2.0, 4.0, 6.0]);

    let error = Module::compile(&device, SOURCE, &[]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error
            .to_string()
            .contains("default_program(4): error: identifier \"FACTOR\" is undefined"),
        "{error}"
    );
    let error = Module::compile(&device, SOURCE, &["--no-such-option"])
        .err()
        .unwrap();
    assert!(error.to_string().contains("--no-such-option"), "{error}");
    // A newer device than this one has.
    let error = Module::compile(&device, SOURCE, &["-DFACTOR=2", "-arch=compute_120"])
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("no kernel image is available"),
        "{error}"
    );
}
