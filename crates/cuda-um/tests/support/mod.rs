//! The runtime of the tests: a GPU with `CUDA_UM_TEST_RUNTIME=cuda`, otherwise the simulator that the `CUDA_UM_SIM_*` variables
//! select.
#![allow(dead_code, reason = "each test binary uses only a part")]

mod at_exit;
mod checked;
pub mod watchdog;

pub use checked::Checked;

use cuda_um::{Device, KernelArgs, LaunchConfig, Module, Runtime, Stream, TransferOptions};
use cuda_um_sim::{Builder, Gpu, LaunchContext, Leak, Sim, TwinError, register_kernel};

/// A device and a stream, and before them the simulator, if there is one; it checks for leaks at the end.
pub fn device() -> (Option<Checked>, Device, Stream) {
    let (sim, runtime) = machine();
    let (device, stream) = on(&runtime, 0);
    (sim, device, stream)
}

/// A runtime, and before it the simulator, if there is one; it checks for leaks at the end.
pub fn machine() -> (Option<Checked>, Runtime) {
    let (sim, runtime) = unwatched();
    if sim.is_none() {
        // A query of its memory initialises CUDA.
        let memory = runtime.device(0).and_then(|device| device.memory_info());
        memory.expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU");
        at_exit::wait_for_frees();
    }
    (sim.map(Checked::new), runtime)
}

/// The same without checks for leaks and without a wait at the end: for processes that end with live objects.
pub fn unwatched() -> (Option<Sim>, Runtime) {
    if std::env::var("CUDA_UM_TEST_RUNTIME").as_deref() == Ok("cuda") {
        let runtime = Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU");
        return (None, runtime);
    }
    let sim = Sim::from_env().expect("CUDA_UM_SIM_* name a simulator");
    let runtime = open(&sim);
    (Some(sim), runtime)
}

/// A simulated device of this generation, on any machine: for tests that need a simulator.
pub fn simulated(gpu: Gpu) -> (Checked, Device, Stream) {
    simulated_with(|builder| builder.gpu(gpu))
}

/// The same with more settings.
pub fn simulated_with(settings: impl FnOnce(Builder) -> Builder) -> (Checked, Device, Stream) {
    // From the environment, only the CUDA version is used.
    let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
    checked(settings(builder.gpu(Gpu::default()).devices(1)))
}

/// The first device of this simulator.
pub fn checked(builder: Builder) -> (Checked, Device, Stream) {
    let sim = Checked::new(builder.build().unwrap());
    let (device, stream) = on(&open(&sim), 0);
    (sim, device, stream)
}

/// A runtime over a simulator.
pub fn open(sim: &Sim) -> Runtime {
    Runtime::from_table(sim.table()).unwrap()
}

/// A device of a runtime, and a stream on it.
pub fn on(runtime: &Runtime, ordinal: u32) -> (Device, Stream) {
    let device = runtime.device(ordinal).unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

/// True if host and device may use managed memory at the same time; otherwise prints that the test is skipped.
pub fn is_concurrent(device: &Device) -> bool {
    let is = device.capabilities().concurrent_managed_access;
    if !is {
        eprintln!(
            "NOT RUN: {} has no concurrent managed access",
            device.name()
        );
    }
    is
}

/// Number of calls of a function, under its own name or that of its second version.
pub fn calls(sim: &Sim, name: &str) -> usize {
    let is_it = |found: &str| found.strip_suffix("_v2").unwrap_or(found) == name;
    sim.trace().iter().filter(|call| is_it(call.name)).count()
}

/// Checks that all memory is freed when buffers and pools are dropped, while devices and streams live.
pub fn no_memory_left(sim: &Sim, runtime: &Runtime) {
    runtime.reclaim().unwrap();
    for device in runtime.devices().unwrap() {
        device.synchronize().unwrap();
        // Frees the pinned memory that stages copies.
        device.set_transfer_options(TransferOptions::default());
    }
    let mut leaks = sim.leaks();
    leaks.retain(|leak| matches!(leak, Leak::Memory { .. }));
    assert!(leaks.is_empty(), "{leaks:?}");
}

/// A kernel that adds 1 to each element, `rounds` times; on a GPU a round takes about half a microsecond.
pub struct Add(pub cuda_um::Kernel);

impl Add {
    pub fn load(device: &Device) -> Self {
        // SAFETY: `twin` does the same as `add.ptx` on the memory of its parameters.
        #[allow(unsafe_code, reason = "the reference matches its kernel")]
        unsafe {
            register_kernel("add", twin);
        }
        let module = Module::load(device, include_str!("add.ptx")).unwrap();
        Self(module.kernel("add").unwrap())
    }

    /// Launches it on (buffer, count: u32, rounds: u32).
    pub fn launch(
        &self,
        stream: &Stream,
        count: usize,
        arguments: impl KernelArgs,
    ) -> cuda_um::Result<()> {
        // SAFETY: the tests pass a buffer of at least `count` u32, `count` again, and a number of rounds.
        #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
        unsafe {
            self.0
                .launch(stream, LaunchConfig::linear(count, 256), arguments)
        }
    }
}

fn twin(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let (count, rounds) = (launch.value::<u32>(1)?, launch.value::<u32>(2)?);
    launch
        .slice_mut::<u32>(0, count as usize)?
        .iter_mut()
        .for_each(|value| *value += rounds);
    Ok(())
}
