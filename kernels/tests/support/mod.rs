//! The runtime for the tests, and numbers for their input.

#[path = "../../../crates/cuda-um/tests/support/at_exit.rs"]
mod at_exit;
#[path = "../../../crates/cuda-um/tests/support/checked.rs"]
#[allow(dead_code, reason = "no test of the kernels leaks on purpose")]
mod checked;
#[path = "../../../crates/cuda-um/tests/support/watchdog.rs"]
#[allow(dead_code, reason = "only a part is used")]
mod watchdog;

use checked::Checked;
use cuda_um::{Device, Runtime, Stream};
use cuda_um_sim::Sim;

/// A device and a stream: of the GPU with `CUDA_UM_TEST_RUNTIME=cuda`, otherwise of the simulator that the `CUDA_UM_SIM_*`
/// variables select. The simulator comes first and checks for leaks at the end.
pub fn device() -> (Option<Checked>, Device, Stream) {
    let sim = match std::env::var("CUDA_UM_TEST_RUNTIME").as_deref() {
        Ok("cuda") => None,
        _ => Some(Sim::from_env().expect("CUDA_UM_SIM_* name a simulator")),
    };
    let runtime = match &sim {
        Some(sim) => Runtime::from_table(sim.table()).unwrap(),
        None => Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU"),
    };
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    if sim.is_none() {
        at_exit::wait_for_frees();
    }
    (sim.map(Checked::new), device, stream)
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
