//! The machines for the tests: each preset of the simulator, or the GPU with `CUDA_UM_TEST_RUNTIME=cuda`.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::time::Duration;

use cuda_um_testkit::{Checked, on_gpu};
use um_backend::cuda_um::Stream;
use um_backend::sim::{Builder, Gpu, LaunchContext, ReferenceError};
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

    /// A machine whose simulator has a kernel `reduce_sum_f32` that lasts this number of microseconds for more than a slot.
    pub fn with_slow_sum<const MICROSECONDS: u64>() -> Self {
        if on_gpu() {
            return Self::new(Gpu::H200);
        }
        let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
        let name = "reduce_sum_f32";
        #[allow(unsafe_code, reason = "the reference uses the memory of its kernel")]
        // SAFETY: it reads the first parameter and writes a part of the second one, as the kernel does.
        let builder = unsafe { builder.kernel(name, slow_sum::<MICROSECONDS>) };
        Self::built(builder.gpu(Gpu::H200))
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

fn slow_sum<const MICROSECONDS: u64>(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let count = launch.value::<u64>(2)? as usize;
    if count > SLOT {
        launch.lasts(Duration::from_micros(MICROSECONDS));
    }
    let elements = launch.slice::<f32>(0, count)?;
    let sum: f64 = elements.iter().copied().map(f64::from).sum();
    launch.slice_mut::<f32>(1, 1)?[0] = sum as f32;
    Ok(())
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
