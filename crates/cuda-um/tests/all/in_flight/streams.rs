//! Buffers in use on several streams, which may end before their work.

use cuda_um::{DeviceBuffer, LaunchConfig, Module, PinnedBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, calls, device, simulated, unpooled};

/// Appends a number to a list, whose first element is its length.
const NOTE: &str = "
.version 6.4
.target sm_50
.address_size 64
.visible .entry note(.param .u64 list, .param .u32 number)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [list];
    ld.param.u32 %r1, [number];
    atom.global.add.u32 %r0, [%rd0], 1;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd0, %rd0, %rd1;
    st.global.u32 [%rd0+4], %r1;
    ret;
}
";

/// Two kernels on two streams, with no buffer in common as far as the library knows; returns the order in which they ran.
fn two_kernels(order: u64, wait: bool) -> Vec<u32> {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.create_stream().unwrap();
    let list = PinnedBuffer::<u32>::zeroed(&device, 3).unwrap();
    let note = Module::load(&device, NOTE).unwrap().kernel("note").unwrap();
    let launch = |stream, number: u32| {
        let arguments = (list.as_ptr() as u64, number);
        // SAFETY: the list has room for two numbers, and nothing reads it before the device is idle.
        #[allow(unsafe_code, reason = "launches a kernel")]
        unsafe { note.launch(stream, LaunchConfig::linear(1, 1), arguments) }.unwrap();
    };
    device.synchronize().unwrap();
    let _held = sim.hold(order);
    launch(&first, 1);
    let event = first.record().unwrap();
    if wait {
        second.wait(&event).unwrap();
    }
    launch(&second, 2);
    device.synchronize().unwrap();
    list.to_vec().unwrap()[1..].to_vec()
}

#[test]
fn a_stream_comes_after_the_events_that_it_waits_for() {
    let other_way = (0..100).find(|order| two_kernels(*order, false) == [2, 1]);
    let order = other_way.expect("without a wait either may be first");
    assert_eq!(two_kernels(order, true), [1, 2]);
}

#[test]
fn work_on_another_stream_waits_once() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.create_stream().unwrap();
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    sim.clear_trace();

    let paused = sim.pause();
    add.launch(&first, 100, (&mut buffer, 100u32, 1u32))
        .unwrap();
    add.launch(&first, 100, (&mut buffer, 100u32, 1u32))
        .unwrap();
    assert_eq!(
        calls(&sim, "cudaEventRecord"),
        0,
        "one stream needs no events"
    );
    second.copy(&buffer, &mut copy).unwrap();
    assert_eq!(
        (
            calls(&sim, "cudaEventRecord"),
            calls(&sim, "cudaStreamWaitEvent")
        ),
        (1, 1)
    );
    second.copy(&buffer, &mut copy).unwrap();
    assert_eq!(calls(&sim, "cudaStreamWaitEvent"), 1, "it waits already");
    // A write after the reads of another stream.
    add.launch(&first, 100, (&mut buffer, 100u32, 1u32))
        .unwrap();
    assert_eq!(calls(&sim, "cudaStreamWaitEvent"), 2);
    drop(paused);

    let mut found = [0; 100];
    copy.copy_to_host(&mut found).unwrap();
    assert_eq!(found, [2; 100]);
    assert_eq!(buffer.host().unwrap()[0], 3);
}

#[test]
fn readers_on_two_streams_run_beside_each_other() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.create_stream().unwrap();
    let source = UnifiedBuffer::from_slice(&device, &[4u32; 100]).unwrap();
    let mut targets = [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&device, 100).unwrap());
    device.synchronize().unwrap();
    sim.clear_trace();
    let [a, b] = &mut targets;
    first.copy(&source, a).unwrap();
    second.copy(&source, b).unwrap();
    assert_eq!(calls(&sim, "cudaStreamWaitEvent"), 0);
    for target in &targets {
        let mut found = [0; 100];
        target.copy_to_host(&mut found).unwrap();
        assert_eq!(found, [4; 100]);
    }
}

#[test]
fn a_ping_pong_over_streams_keeps_its_order() {
    let (_sim, device, first) = device();
    let streams = [
        first,
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    ];
    let add = Add::load(&device);
    let mut a = UnifiedBuffer::<u32>::zeroed(&device, 10_000).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&device, 10_000).unwrap();
    for round in 0..60 {
        add.launch(&streams[round % 3], 10_000, (&mut a, 10_000u32, 5u32))
            .unwrap();
        streams[(round + 1) % 3].copy(&a, &mut b).unwrap();
        add.launch(&streams[(round + 2) % 3], 10_000, (&mut b, 10_000u32, 1u32))
            .unwrap();
        streams[round % 3].copy(&b, &mut a).unwrap();
    }
    assert_eq!(*a.host().unwrap(), [60 * 6; 10_000]);
}

#[test]
fn a_stream_may_go_before_its_work() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let paused = sim.pause();
    add.launch(&stream, 100, (&mut buffer, 100u32, 9u32))
        .unwrap();
    drop(stream);
    let resume = std::thread::spawn(move || drop(paused));
    assert_eq!(buffer.host().unwrap()[0], 9);
    resume.join().unwrap();
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
    let (made, destroyed) = (
        calls(&sim, "cudaStreamCreateWithFlags"),
        calls(&sim, "cudaStreamDestroy"),
    );
    assert!(
        made > 100 && made - destroyed < 16,
        "{destroyed} of {made} destroyed"
    );
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
