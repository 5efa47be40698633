//! Failures of CUDA, injected in the simulator: the text of the errors, and that nothing is lost.

mod borrowed;
mod memory;

use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, MemoryKind, Oversubscription, PinnedBuffer, Placement,
    Pool, PoolOptions, RegisteredBuffer, Result, UnifiedBuffer, UnifiedOptions,
    buffer::TransferOptions,
    resource::{DeviceMemory, DriverPool, ManagedMemory, MemoryResource},
};
use cuda_um_sim::{Builder, CudaVersion, Fail, Gpu, Leak, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{
    Checked, any_buffer, calls, fails, simulated, simulated_with, unpooled, without_pools,
};

const MIB: usize = 1 << 20;

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
fn a_device_that_never_worked_is_not_lost_though_another_one_works() {
    let (sim, device, stream) = simulated_with(|builder| builder.devices(2));
    sim.breaks("the second device is lost at the end");
    let mut works = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let second = device.runtime().device(1).unwrap();
    let stream_if = |code| {
        sim.fail(Fail::call("cudaStreamCreateWithFlags").with(code));
        second.create_stream().unwrap_err()
    };
    let unavailable = cudaError::cudaErrorDevicesUnavailable;
    for code in [unavailable, cudaError::cudaErrorNoDevice] {
        let error = stream_if(code);
        assert!(!error.is_sticky(), "another process may have it: {error}");
        works.fill_on(3, &stream).unwrap();
        assert_eq!(works.host().unwrap()[0], 3);
    }
    second.create_stream().unwrap().synchronize().unwrap();
    assert!(stream_if(unavailable).is_sticky(), "now it has worked");
}
