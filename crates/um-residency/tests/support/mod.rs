//! The machines for the tests: each preset of the simulator, or the GPU with `CUDA_UM_TEST_RUNTIME=cuda`.
#![allow(dead_code, reason = "each test binary uses a part")]

use cuda_um_testkit::{Checked, on_gpu};
use um_backend::cuda_um::Stream;
use um_backend::sim::{Builder, Gpu};
use um_backend::{CudaBackend, CudaBackendConfig, CudaDevice};
use um_residency::{Arena, Budget};

pub const MIB: u64 = 1 << 20;
/// The elements of a slot of `u32`.
pub const SLOT: usize = (2 << 20) / 4;

/// A device, and before it the simulator, if there is one; it checks for leaks at the end.
pub struct Machine {
    pub device: CudaDevice,
    pub stream: Stream,
    pub sim: Option<Checked>,
}

impl Machine {
    pub fn new(gpu: Gpu) -> Self {
        if on_gpu() {
            return Self::of(CudaBackendConfig::default(), None);
        }
        let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
        Self::built(builder.gpu(gpu))
    }

    /// A machine with a simulator, also if the tests run on a GPU.
    pub fn built(builder: Builder) -> Self {
        let sim = Checked::new(builder.devices(1).build().unwrap());
        Self::of(
            CudaBackendConfig::default().simulator((*sim).clone()),
            Some(sim),
        )
    }

    fn of(config: CudaBackendConfig, sim: Option<Checked>) -> Self {
        let backend = CudaBackend::initialize_blocking(config).expect("the machine opens");
        let device = backend.device().clone();
        let stream = device.create_stream().unwrap();
        Self {
            device,
            stream,
            sim,
        }
    }

    pub fn arena(&self, slots: u64) -> Arena {
        Arena::new(&self.device, Budget::Bytes(2 * slots * MIB)).unwrap()
    }
}

pub fn each_machine(test: impl Fn(&Machine)) {
    let gpus = [
        Gpu::H200,
        Gpu::Gh200,
        Gpu::Pascal,
        Gpu::Maxwell,
        Gpu::NoConcurrentAccess,
    ];
    for gpu in &gpus[..if on_gpu() { 1 } else { gpus.len() }] {
        test(&Machine::new(*gpu));
    }
}
