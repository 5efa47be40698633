//! Failures of CUDA, injected in the simulator: the text of the errors, and that nothing is lost.

mod borrowed;
mod memory;

use cuda_um::{
    DeviceBuffer, Error, ErrorKind, Location, MemoryKind, Oversubscription, PinnedBuffer,
    Placement, Pool, PoolOptions, RegisteredBuffer, UnifiedBuffer, UnifiedOptions,
    buffer::TransferOptions,
    resource::{DeviceMemory, DriverPool, ManagedMemory, MemoryResource},
};
use cuda_um_sim::{Builder, Fail, Gpu, Leak, Misuse, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, Checked, calls, simulated, simulated_with, unpooled, without_pools};

const MIB: usize = 1 << 20;

/// Makes the next call of a function fail; a prefetch also under the name that it had from 12.2 to 12.9.
fn fail(sim: &Sim, call: &str) {
    let names = match call {
        "cudaMemPrefetchAsync" => &[call, "cudaMemPrefetchAsync_v2"][..],
        _ => &[call],
    };
    for name in names {
        sim.fail(Fail::call(name).with(cudaError::cudaErrorInvalidValue));
    }
}

#[test]
fn an_error_names_call_subject_and_code_and_is_cleared() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let buffer = UnifiedBuffer::<u8>::zeroed(&device, 5000).unwrap();
    buffer.prefetch_on(Location::Host, &stream).unwrap();
    fail(&sim, "cudaMemPrefetchAsync");
    let error = buffer.prefetch_on(&device, &stream).unwrap_err();
    let text = "cudaMemPrefetchAsync: 5000 bytes to device 0: cudaErrorInvalidValue (1): ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!((error.kind(), error.is_sticky()), (ErrorKind::Call, false));
    let table = sim.table();
    // SAFETY: the function takes no arguments.
    #[allow(unsafe_code, reason = "reads the thread's last error")]
    let last = unsafe { (table.cudaPeekAtLastError)() };
    assert_eq!(
        last,
        cudaError::cudaSuccess,
        "the runtime's last error is cleared"
    );
    buffer.prefetch_on(&device, &stream).unwrap();
}

#[test]
fn a_broken_context_is_sticky_and_its_memory_is_not_reused() {
    let (sim, device, stream) = simulated_with(|builder| builder.crash_on_misuse(false));
    without_pools(&device);
    sim.breaks("a kernel has an illegal address");
    sim.misuses(1, "a kernel goes beyond its buffer", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    // The kernel accesses memory beyond its buffer: an illegal address.
    add.launch(&stream, 100_000, (&mut buffer, 100_000u32, 1u32))
        .unwrap();
    let error = buffer.host().map(|guard| guard[0]).unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(
        error.to_string().contains("cudaErrorIllegalAddress (700)"),
        "{error}"
    );
    assert!(
        DeviceBuffer::<u8>::zeroed(&device, 1)
            .unwrap_err()
            .is_sticky(),
        "every later call fails"
    );
    let error = buffer.close().unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(sim.poison().is_some());
}

/// If the library takes an error as the end of all work, the simulator must also end all work, because the library then frees
/// memory.
#[test]
fn an_error_that_ends_all_work_ends_it() {
    let mut ends = 0;
    for code in 1..=1000 {
        let (sim, device, stream) = simulated(Gpu::H200);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
        buffer.fill_on(3, &stream).unwrap();
        stream.synchronize().unwrap();
        sim.fail(Fail::call("cudaStreamSynchronize").with_code(code));
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.is_sticky(), sim.poison().is_some(), "{error}");
        if error.is_sticky() {
            sim.breaks("the injected error breaks it");
            ends += 1;
        }
    }
    assert!(ends > 10, "{ends}");
}

#[test]
fn a_device_that_never_worked_is_not_lost() {
    let sim = Checked::new(Sim::builder().build().unwrap());
    let unavailable = cudaError::cudaErrorDevicesUnavailable;
    sim.fail(Fail::call("cudaStreamCreateWithFlags").with(unavailable));
    let device = cuda_um_testkit::open(&sim).device(0).unwrap();
    let error = device.create_stream().unwrap_err();
    assert!(!error.is_sticky(), "another process may have it: {error}");
    device.create_stream().unwrap();
}

#[test]
fn a_device_that_never_worked_is_not_lost_though_another_one_works() {
    let (sim, device, stream) = simulated_with(|builder| builder.devices(2));
    sim.breaks("the second device is lost at the end");
    let mut works = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let second = device.runtime().device(1).unwrap();
    for code in [
        cudaError::cudaErrorDevicesUnavailable,
        cudaError::cudaErrorNoDevice,
    ] {
        sim.fail(Fail::call("cudaStreamCreateWithFlags").with(code));
        let error = second.create_stream().unwrap_err();
        assert!(!error.is_sticky(), "another process may have it: {error}");
        works.fill_on(3, &stream).unwrap();
        assert_eq!(works.host().unwrap()[0], 3);
    }
    let of_second = second.create_stream().unwrap();
    of_second.synchronize().unwrap();
    let unavailable = cudaError::cudaErrorDevicesUnavailable;
    sim.fail(Fail::call("cudaStreamCreateWithFlags").with(unavailable));
    assert!(
        second.create_stream().unwrap_err().is_sticky(),
        "now it has worked"
    );
}

#[test]
fn what_is_leaked_does_not_keep_the_runtime() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = unpooled(gpu);
        sim.breaks("a kernel has an illegal address");
        sim.misuses(1, "a kernel goes beyond its buffer", |misuse| {
            matches!(misuse, Misuse::KernelFault { .. })
        });
        let table = std::sync::Arc::downgrade(&sim.table());
        let add = Add::load(&device);
        let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let mut own = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
        let mut pooled = UnifiedBuffer::<u32>::zeroed_in(&pool, 10).unwrap();
        add.launch(&stream, 100_000, (&mut own, 100_000u32, 1u32))
            .unwrap();
        let _ = add.launch(&stream, 10, (&mut pooled, 10u32, 1u32));
        assert!(pooled.close().unwrap_err().is_sticky());
        assert!(own.close().unwrap_err().is_sticky());
        let runtime = device.runtime().clone();
        drop((add, pool, stream, device));
        assert!(runtime.reclaim().is_err_and(|error| error.is_sticky()));
        drop(runtime);
        assert_eq!(table.strong_count(), 0, "{gpu:?}");
    }
}
