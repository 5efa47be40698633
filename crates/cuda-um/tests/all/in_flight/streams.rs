//! Buffers in use on several streams, which may end before their work.

use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, Told, calls, simulated, unpooled};

#[test]
fn a_stream_comes_after_the_events_that_it_waits_for() {
    let (_sim, device, first) = simulated(Gpu::H200);
    let (told, second) = (Told::load(&device), device.create_stream().unwrap());
    told.launch(&first, 0u64);
    second.wait(&first.record().unwrap()).unwrap();
    let is_idle = second.is_idle().unwrap();
    told.tell();
    second.synchronize().unwrap();
    assert!(!is_idle && told.has_ended());
}

/// claim 2
#[test]
fn work_on_another_stream_waits_once() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.create_stream().unwrap();
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let [mut copy, mut beside] =
        [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&device, 100).unwrap());
    device.synchronize().unwrap();
    sim.clear_trace();

    let waits = || ["cudaEventRecord", "cudaStreamWaitEvent"].map(|name| calls(&sim, name));
    let paused = sim.pause();
    add.run(&first, &mut buffer, 100, 1);
    add.run(&first, &mut buffer, 100, 1);
    assert_eq!(waits(), [0, 0], "one stream needs no events");
    second.copy(&buffer, &mut copy).unwrap();
    assert_eq!(waits(), [1, 1]);
    second.copy(&buffer, &mut copy).unwrap();
    assert_eq!(waits(), [1, 1], "it waits already");
    first.copy(&buffer, &mut beside).unwrap();
    assert_eq!(waits(), [1, 1], "readers run beside each other");
    // A write after the reads of another stream.
    add.run(&first, &mut buffer, 100, 1);
    assert_eq!(waits()[1], 2);
    drop(paused);
    assert_eq!(copy.to_vec().unwrap(), [2; 100]);
    assert_eq!(beside.to_vec().unwrap(), [2; 100]);
    assert_eq!(buffer.host().unwrap()[0], 3);
}

#[test]
fn a_buffer_that_is_only_read_lets_its_streams_go() {
    let (sim, device, _) = simulated(Gpu::H200);
    let weights = DeviceBuffer::from_slice(&device, &[7u8; 64]).unwrap();
    for synchronized in [true, false] {
        for _ in 0..50 {
            let stream = device.create_stream().unwrap();
            let mut copy = DeviceBuffer::<u8>::zeroed(&device, 64).unwrap();
            stream.copy(&weights, &mut copy).unwrap();
            if synchronized {
                stream.synchronize().unwrap();
            } else {
                copy.close().unwrap();
            }
        }
    }
    device.runtime().reclaim().unwrap();
    let count = |name| calls(&sim, name);
    let [made, destroyed] = ["cudaStreamCreateWithFlags", "cudaStreamDestroy"].map(count);
    assert!(made > 100 && made - destroyed < 16, "{destroyed} of {made}");
}

#[test]
fn more_events_than_a_stream_keeps_leave_its_order() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let [mut source, mut target] =
        [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&device, 10).unwrap());
    let other = device.create_stream().unwrap();
    let paused = sim.pause();
    for value in 0..3000 {
        source.fill_on(value, &stream).unwrap();
        let _event = stream.record().unwrap();
    }
    other.copy(&source, &mut target).unwrap();
    drop(paused);
    assert_eq!(target.to_vec().unwrap()[9], 2999);
}

#[test]
fn a_dropped_stream_whose_work_is_done_defers_no_free() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let mut used = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let idle = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    let gone = device.create_stream().unwrap();
    used.fill_on(1, &gone).unwrap();
    // From here on the buffer tracks only this work, which runs after that of the dropped stream.
    used.fill_on(2, &stream).unwrap();
    drop(gone);
    drop(paused);
    stream.synchronize().unwrap();
    // The event that the dropped stream left may end after that work. The library does not see this call.
    #[allow(unsafe_code, reason = "calls CUDA itself")]
    // SAFETY: no preconditions.
    unsafe {
        (sim.table().cudaDeviceSynchronize)()
    };
    let before = calls(&sim, "cudaFree");
    drop(idle);
    assert_eq!(calls(&sim, "cudaFree"), before + 1, "freed at once");
}
