//! The thread's current device belongs to the caller: it is the same after every call, for any device.

use cuda_um::{
    Advice, Device, DeviceBuffer, Error, Location, MemoryKind, PinnedBuffer, Pool, PoolOptions,
    RegisteredBuffer, UnifiedBuffer, managed::PrefetchBatch,
};
use cuda_um_sim::{Fail, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, simulated_with};

/// The result of `cudaGetDevice` on this thread.
#[allow(unsafe_code, reason = "queries CUDA directly, not the library")]
fn current(sim: &Sim) -> i32 {
    let mut ordinal = -1;
    // SAFETY: the pointer is valid for one write.
    let code = unsafe { (sim.table().cudaGetDevice)(&mut ordinal) };
    assert_eq!(code, cudaError::cudaSuccess);
    ordinal
}

#[allow(unsafe_code, reason = "queries CUDA directly, not the library")]
fn make_current(sim: &Sim, ordinal: i32) {
    // SAFETY: the function takes a number.
    let code = unsafe { (sim.table().cudaSetDevice)(ordinal) };
    assert_eq!(code, cudaError::cudaSuccess);
}

/// Makes every kind of call for `device`, and passes the name of each to `after`.
fn every_kind_of_call(device: &Device, after: impl Fn(&str)) {
    let stream = device.create_stream().unwrap();
    after("a stream");
    let add = Add::load(device);
    after("a module");
    let mut unified = UnifiedBuffer::<u32>::zeroed(device, 5000).unwrap();
    after("managed memory");
    let mut memory = DeviceBuffer::<u32>::zeroed(device, 5000).unwrap();
    after("device memory");
    let mut pinned = PinnedBuffer::<u32>::zeroed(device, 5000).unwrap();
    after("pinned memory");
    let pool = Pool::new(device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let pooled = UnifiedBuffer::<u32>::zeroed_in(&pool, 5000).unwrap();
    after("a pool");
    unified.advise(Advice::SetReadMostly).unwrap();
    after("advice");
    unified.prefetch_on(Location::Host, &stream).unwrap();
    after("a prefetch");
    let mut batch = PrefetchBatch::new();
    batch.add(&unified).prefetch_on(device, &stream).unwrap();
    after("a batch");
    add.launch(&stream, 5000, (&mut unified, 5000u32, 1u32))
        .unwrap();
    after("a launch");
    memory.fill_on(7, &stream).unwrap();
    after("a fill");
    stream.copy(&unified, &mut memory).unwrap();
    after("a copy");
    stream.copy(&memory, &mut pinned).unwrap();
    memory.copy_from_host(&[3; 5000]).unwrap();
    memory.copy_to_host(&mut [0; 5000]).unwrap();
    after("copies from and to the host");
    let event = stream.record().unwrap();
    after("a record");
    stream.wait(&event).unwrap();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap());
    after("a wait");
    assert_eq!(unified.host().unwrap()[0], 1);
    after("a host guard");
    device.memory_info().unwrap();
    after("a question");
    let mut own = vec![0u8; 4096];
    RegisteredBuffer::scope(device, &mut own, |_| after("registering")).unwrap();
    after("unregistering");
    device.synchronize().unwrap();
    after("synchronizing");
    unified.close().unwrap();
    memory.close().unwrap();
    pinned.close().unwrap();
    after("frees");
    drop((pooled, pool, event, add, stream));
    after("drops");
}

#[test]
fn the_callers_device_stays_current() {
    let (sim, first, _) = simulated_with(|builder| builder.devices(2));
    let second = first.runtime().device(1).unwrap();
    for callers in [0, 1] {
        make_current(&sim, callers);
        for device in [&first, &second] {
            let ordinal = device.ordinal();
            every_kind_of_call(device, |what| {
                assert_eq!(current(&sim), callers, "{what} of device {ordinal}");
            });
        }
    }
}

#[test]
fn the_callers_device_stays_current_when_a_call_fails() {
    let (sim, first, _) = simulated_with(|builder| builder.devices(2));
    let second = first.runtime().device(1).unwrap();
    for callers in [0, 1] {
        make_current(&sim, callers);
        for device in [&first, &second] {
            sim.fail(Fail::call("cudaMallocManaged").with(cudaError::cudaErrorInvalidValue));
            let error = UnifiedBuffer::<u8>::zeroed(device, 100).unwrap_err();
            assert!(matches!(error, Error::Call { .. }), "{error}");
            assert_eq!(current(&sim), callers);
        }
    }
}

/// Both directions: setting the device (which may report the failure of earlier work), and setting it back.
#[test]
fn the_callers_device_stays_current_when_setting_a_device_fails() {
    let (sim, first, _) = simulated_with(|builder| builder.devices(2));
    let second = first.runtime().device(1).unwrap();
    make_current(&sim, 0);
    let fails = || Fail::call("cudaSetDevice").with(cudaError::cudaErrorInvalidValue);
    let ask = || second.memory_info().map(drop);

    sim.fail(fails().after_the_call());
    let error = ask().unwrap_err();
    assert!(error.to_string().contains("cudaSetDevice"), "{error}");
    assert_eq!(current(&sim), 0, "after an error of earlier work");

    sim.fail(fails());
    ask().unwrap_err();
    assert_eq!(current(&sim), 0, "after a refusal");

    sim.fail(fails().nth(2));
    ask().expect("the question itself was answered");
    assert_eq!(current(&sim), 0, "after a refusal on the way back");
}
