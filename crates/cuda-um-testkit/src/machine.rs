//! The machines of tests, and questions to them.

use crate::checked::Checked;
use cuda_um::sys::{Table, cudaError};
use cuda_um::{Device, MemoryKind, Runtime, Stream};
use cuda_um_sim::{Builder, Fail, Gpu, Leak, Sim};
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// True if the tests run on a GPU.
pub fn on_gpu() -> bool {
    match std::env::var("CUDA_UM_TEST_RUNTIME").as_deref() {
        Ok("cuda") => true,
        Ok("" | "sim") | Err(_) => false,
        Ok(other) => panic!("CUDA_UM_TEST_RUNTIME={other}: expected cuda or sim"),
    }
}

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
    }
    (sim.map(Checked::new), runtime)
}

/// The same without checks for leaks and without a wait at the end: for processes that end with live objects.
pub fn unwatched() -> (Option<Sim>, Runtime) {
    if on_gpu() {
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

/// Like [`simulated`], with no default pools: each buffer is a separate allocation.
pub fn unpooled(gpu: Gpu) -> (Checked, Device, Stream) {
    let (sim, device, stream) = simulated(gpu);
    without_pools(&device);
    (sim, device, stream)
}

/// A simulated machine of each of these generations; if the tests run on a GPU, only that machine.
pub fn machines(
    gpus: impl IntoIterator<Item = Gpu>,
) -> impl Iterator<Item = (Option<Checked>, Device, Stream)> {
    let gpus: Vec<_> = match on_gpu() {
        true => vec![None],
        false => gpus.into_iter().map(Some).collect(),
    };
    gpus.into_iter().map(|gpu| match gpu {
        None => device(),
        Some(gpu) => {
            let (sim, device, stream) = simulated(gpu);
            (Some(sim), device, stream)
        }
    })
}

/// Like [`simulated`], with more settings.
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

/// A runtime over the functions of a simulator, but with another one of this name.
///
/// # Safety
///
/// The function behaves as the simulator's.
#[allow(unsafe_code, reason = "fills a table of functions")]
pub unsafe fn open_with(sim: &Sim, name: &CStr, function: *const c_void) -> Runtime {
    let mut resolve = |other: &CStr| match other == name {
        true => function,
        false => sim.symbol(other.to_str().unwrap()),
    };
    let owner = Arc::new(sim.table());
    // SAFETY: the simulator's functions, and one that behaves as its own; the owner keeps the simulator alive.
    let table = unsafe { Table::from_symbols(owner, None, &mut resolve) };
    Runtime::from_table(Arc::new(table.unwrap())).unwrap()
}

/// A device of a runtime, and a stream on it.
pub fn on(runtime: &Runtime, ordinal: u32) -> (Device, Stream) {
    let device = runtime.device(ordinal).unwrap();
    let stream = device.create_stream().unwrap();
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

/// Turns the default pools of a device off, for a test of single allocations. It comes before the first buffer.
pub fn without_pools(device: &Device) {
    for kind in [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned] {
        device.set_pool_options(kind, None).unwrap();
    }
}

/// Number of calls of a function, under its own name or that of its second version.
pub fn calls(sim: &Sim, name: &str) -> usize {
    let is_it = |found: &str| found.strip_suffix("_v2").unwrap_or(found) == name;
    sim.trace().iter().filter(|call| is_it(call.name)).count()
}

/// From now on, no call tells whether work is done.
pub fn fail_waits(sim: &Sim) {
    for call in [
        "cudaEventQuery",
        "cudaEventSynchronize",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
    ] {
        let fail = Fail::call(call).with(cudaError::cudaErrorInvalidValue);
        sim.fail(fail.from_then_on());
    }
}

/// Checks that all memory is freed when buffers and pools are dropped, while devices and streams live.
pub fn no_memory_left(sim: &Sim, runtime: &Runtime) {
    runtime.reclaim().unwrap();
    for device in runtime.devices().unwrap() {
        device.synchronize().unwrap();
        device.trim();
    }
    let mut leaks = sim.leaks();
    leaks.retain(|leak| matches!(leak, Leak::Memory { .. }));
    assert!(leaks.is_empty(), "{leaks:?}");
}
