//! The tensor library of `um_examples::mini_framework`, in all kinds of memory, on five simulated GPUs or on the GPU.

mod concurrent;
mod memory;
mod ops;
mod program;

use um_backend::sim::{Builder, Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, RuntimeChoice};
use um_examples::mini_framework::Place;

const GPUS: [Gpu; 5] = [
    Gpu::H200,
    Gpu::Gh200,
    Gpu::Pascal,
    Gpu::Maxwell,
    Gpu::NoConcurrentAccess,
];

/// The runtime of the tests: `cuda` if `CUDA_UM_TEST_RUNTIME` says so, otherwise the simulator.
fn is_on_gpu() -> bool {
    std::env::var("CUDA_UM_TEST_RUNTIME").is_ok_and(|runtime| runtime == "cuda")
}

/// A backend on a simulator with two devices.
fn simulated(gpu: Gpu, settings: impl FnOnce(Builder) -> Builder) -> (Sim, CudaBackend) {
    let builder = Builder::from_env().unwrap().gpu(gpu).devices(2);
    let sim = settings(builder).build().unwrap();
    let config = CudaBackendConfig::default().simulator(sim.clone());
    (sim, CudaBackend::initialize_blocking(config).unwrap())
}

/// Runs a test on each machine.
fn on_each(test: impl Fn(&CudaBackend)) {
    if is_on_gpu() {
        let config = CudaBackendConfig::default().runtime(RuntimeChoice::Cuda);
        return test(&CudaBackend::initialize_blocking(config).unwrap());
    }
    for gpu in GPUS {
        eprintln!("on {gpu:?}");
        let (sim, backend) = simulated(gpu, |builder| builder);
        test(&backend);
        backend.synchronize().unwrap();
        assert_eq!(sim.misuse(), [], "{gpu:?}");
    }
}

/// Runs a test in each kind of memory on each machine.
fn everywhere(test: impl Fn(&Place)) {
    on_each(|backend| {
        for kind in BufferKind::ALL {
            eprintln!("in {kind} memory");
            test(&Place::new(backend, kind).unwrap());
        }
    });
}
