//! The machines for the tests: each preset of the simulator, or the GPU with `CUDA_UM_TEST_RUNTIME=cuda`.
//!
//! `CUDA_UM_SIM_CUDA` is the CUDA version of the simulator.

pub mod kernel;
pub mod opaque;

use cuda_um::Runtime;
use cuda_um_testkit::{Checked, on_gpu};
use um_backend::sim::{Builder, Gpu, Sim};
use um_backend::{CudaBackend, CudaBackendConfig, RuntimeChoice, cuda_um::PoolOptions};

use Gpu::{Gh200, H200, Maxwell, NoConcurrentAccess, Pascal};

/// The presets that every test runs on.
pub const PRESETS: [Gpu; 5] = [H200, Gh200, Pascal, Maxwell, NoConcurrentAccess];

/// A machine to open backends on.
pub struct Machine {
    /// The preset; `None` on a GPU.
    pub gpu: Option<Gpu>,
    /// The simulator, which is checked at the end; `None` on a GPU.
    pub sim: Option<Checked>,
    /// The simulator, or a new runtime: the shared runtime keeps its staging memory until the process ends.
    runtime: RuntimeChoice,
}

impl Machine {
    /// A simulated machine, with settings.
    pub fn simulated(gpu: Gpu, settings: impl FnOnce(Builder) -> Builder) -> Self {
        println!("on {gpu:?}");
        let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
        let sim = settings(builder.gpu(gpu)).build();
        let sim = sim.expect("the simulator is built");
        Self {
            gpu: Some(gpu),
            runtime: RuntimeChoice::Simulator(sim.clone()),
            sim: Some(Checked::new(sim)),
        }
    }

    pub fn sim(&self) -> &Sim {
        self.sim.as_ref().expect("the test runs on a simulator")
    }

    pub fn config(&self) -> CudaBackendConfig {
        CudaBackendConfig::default().runtime(self.runtime.clone())
    }

    pub fn open(&self, config: CudaBackendConfig) -> CudaBackend {
        CudaBackend::initialize_blocking(config).expect("the machine opens")
    }

    pub fn backend(&self) -> CudaBackend {
        self.open(self.config())
    }

    /// A backend with a pool for unified buffers, if managed memory is good.
    pub fn pooled(&self) -> CudaBackend {
        self.open(self.config().unified_pool(PoolOptions::default()))
    }

    /// A backend for each device, all of one runtime.
    pub fn backends(&self) -> Vec<CudaBackend> {
        let first = self.backend();
        let count = first.device().runtime().device_count().unwrap();
        (0..count).map(|at| first.sibling(at).unwrap()).collect()
    }

    /// A backend with a runtime of its own over the same driver.
    pub fn on_another_runtime(&self) -> CudaBackend {
        let runtime = match &self.sim {
            Some(sim) => Runtime::from_table(sim.table()),
            None => Runtime::open(),
        };
        let runtime = RuntimeChoice::Given(runtime.unwrap());
        self.open(self.config().runtime(runtime))
    }

    /// Whether managed memory is good on this machine.
    pub fn has_good_managed_memory(&self) -> bool {
        let device = self.backend().device().clone();
        device.capabilities().managed_memory && device.capabilities().compute_capability >= (6, 0)
    }

    /// Whether the CPU may use managed memory while kernels run. Only then can it be prefetched.
    pub fn is_concurrent(&self) -> bool {
        let device = self.backend().device().clone();
        device.capabilities().concurrent_managed_access
    }
}

/// Runs a test on each machine.
pub fn on_each(test: impl Fn(&Machine)) {
    if !on_gpu() {
        return on_each_preset(|builder| builder, test);
    }
    let runtime = Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU");
    test(&Machine {
        gpu: None,
        sim: None,
        runtime: RuntimeChoice::Given(runtime),
    });
}

/// Runs a test on each preset, with settings. On a GPU the test is skipped with a message.
pub fn on_each_preset(settings: impl Fn(Builder) -> Builder, test: impl Fn(&Machine)) {
    if on_gpu() {
        return eprintln!("NOT RUN: the test needs presets of the simulator");
    }
    for gpu in PRESETS {
        test(&Machine::simulated(gpu, &settings));
    }
}
