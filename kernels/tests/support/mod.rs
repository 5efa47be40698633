//! The runtime that the tests run on, and numbers to run them with.

use cuda_um::{Device, Runtime, Stream};
use cuda_um_sim::Sim;

/// A device and a stream: of the GPU with `CUDA_UM_TEST_RUNTIME=cuda`, else of the simulator that the `CUDA_UM_SIM_*` variables name.
pub fn device() -> (Device, Stream) {
    let runtime = match std::env::var("CUDA_UM_TEST_RUNTIME").as_deref() {
        Ok("cuda") => Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU"),
        _ => Runtime::from_table(
            Sim::from_env()
                .expect("CUDA_UM_SIM_* name a simulator")
                .table(),
        )
        .unwrap(),
    };
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

/// Numbers from -1 to 1, the same in every run (xorshift64*).
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
