//! The machines for the tests: each preset of the simulator, or the GPU with `CUDA_UM_TEST_RUNTIME=cuda`.
//!
//! `CUDA_UM_SIM_CUDA` is the CUDA version of the simulator.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod kernel;
pub mod opaque;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_um::Runtime;
use cuda_um_testkit::{message, on_gpu};
use um_backend::sim::{Builder, Gpu, Sim};
use um_backend::{CudaBackend, CudaBackendConfig, RuntimeChoice, cuda_um::PoolOptions};

/// The presets that every test runs on.
pub const PRESETS: [Gpu; 5] = [
    Gpu::H200,
    Gpu::Gh200,
    Gpu::Pascal,
    Gpu::Maxwell,
    Gpu::NoConcurrentAccess,
];

/// A machine to open backends on.
pub struct Machine {
    /// The preset; `None` on a GPU.
    pub gpu: Option<Gpu>,
    /// The simulator; `None` on a GPU.
    pub sim: Option<Sim>,
    /// The simulator, or a new runtime: the shared runtime keeps its staging memory until the process ends.
    runtime: RuntimeChoice,
    opened: RefCell<Vec<CudaBackend>>,
}

impl Machine {
    pub fn config(&self) -> CudaBackendConfig {
        CudaBackendConfig::default().runtime(self.runtime.clone())
    }

    pub fn backend(&self) -> CudaBackend {
        self.keep(CudaBackend::initialize_blocking(self.config()).expect("the machine opens"))
    }

    /// A backend with a pool for unified buffers, if managed memory is good.
    pub fn pooled(&self) -> CudaBackend {
        let config = self.config().unified_pool(PoolOptions::default());
        self.keep(CudaBackend::initialize_blocking(config).expect("the machine opens"))
    }

    /// A backend for each device, all of one runtime.
    pub fn backends(&self) -> Vec<CudaBackend> {
        let first = self.backend();
        let count = first.device().runtime().device_count().unwrap();
        let open = |ordinal| self.keep(first.sibling(ordinal).unwrap());
        (0..count).map(open).collect()
    }

    /// A backend with a runtime of its own over the same driver.
    pub fn on_another_runtime(&self) -> CudaBackend {
        let runtime = match &self.sim {
            Some(sim) => Runtime::from_table(sim.table()),
            None => Runtime::open(),
        };
        let config = self
            .config()
            .runtime(RuntimeChoice::Given(runtime.unwrap()));
        self.keep(CudaBackend::initialize_blocking(config).unwrap())
    }

    /// Keeps a backend until the end of the test, which waits for its work.
    pub fn keep(&self, backend: CudaBackend) -> CudaBackend {
        self.opened.borrow_mut().push(backend.clone());
        backend
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

    /// Waits for all work, and checks for leaks and misuse.
    fn ends_clean(&self) {
        for backend in self.opened.take() {
            backend.synchronize().expect("nothing failed on the device");
            let runtime = backend.device().runtime().clone();
            // Also drops its pool.
            drop(backend);
            runtime.reclaim().expect("everything dropped was freed");
        }
        if let Some(sim) = &self.sim {
            assert_eq!(sim.leaks(), [], "leaks");
            assert_eq!(sim.misuse(), [], "misuse");
        }
    }
}

/// Runs a test on each machine. A failure names the machine.
pub fn on_each(test: impl Fn(&Machine)) {
    if on_gpu() {
        run(None, |builder| builder, &test);
    } else {
        PRESETS
            .iter()
            .for_each(|&gpu| run(Some(gpu), |builder| builder, &test));
    }
}

/// Runs a test on one preset, with settings. On a GPU the test is skipped with a message.
pub fn on_preset(gpu: Gpu, settings: impl FnOnce(Builder) -> Builder, test: impl Fn(&Machine)) {
    if on_gpu() {
        eprintln!("skipped on a GPU: this part needs the preset {gpu:?}");
    } else {
        run(Some(gpu), settings, &test);
    }
}

/// Runs a test on each preset, with settings. On a GPU the test is skipped with a message.
pub fn on_each_preset(settings: impl Fn(Builder) -> Builder, test: impl Fn(&Machine)) {
    PRESETS
        .iter()
        .for_each(|&gpu| on_preset(gpu, &settings, &test));
}

fn run(gpu: Option<Gpu>, settings: impl FnOnce(Builder) -> Builder, test: &impl Fn(&Machine)) {
    let sim = gpu.map(|gpu| {
        let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
        settings(builder.gpu(gpu))
            .build()
            .expect("the simulator is built")
    });
    let runtime = match &sim {
        Some(sim) => RuntimeChoice::Simulator(sim.clone()),
        None => {
            RuntimeChoice::Given(Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU"))
        }
    };
    let machine = Machine {
        gpu,
        sim,
        runtime,
        opened: RefCell::default(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        test(&machine);
        machine.ends_clean();
    }));
    if let Err(panic) = outcome {
        let name = gpu.map_or("the GPU".to_owned(), |gpu| format!("{gpu:?}"));
        panic!("on {name}: {}", message(&*panic));
    }
}
