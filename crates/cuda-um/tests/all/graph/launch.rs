//! Launches: one use of each buffer, ordered with all others.

use cuda_um::{Advice, DeviceBuffer, Error, UnifiedBuffer, constant};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, device, on_gpu, simulated, unwatched};

/// Work that takes long.
fn long() -> u32 {
    if on_gpu() { 100_000 } else { 100 }
}

#[test]
fn a_launch_is_a_use_of_each_buffer() {
    let (_sim, device, stream) = device();
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let graph = stream
        .capture(|_| {
            add.launch(
                &stream,
                1000,
                (&mut data, constant(1000u32), constant(long())),
            )?;
            add.launch(
                &stream,
                1000,
                (&mut data, constant(1000u32), constant(long())),
            )
        })
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    // After earlier work on another stream, before later work on another stream, and before the host.
    data.fill_on(constant(1), &other).unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    other.copy(&data, &mut copy).unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(copy.to_vec().unwrap()[999], 2 * long() + 1);
    assert_eq!(data.host().unwrap()[999], 4 * long() + 1);
}

#[test]
fn buffers_and_graphs_may_be_dropped_while_a_launch_runs() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let graph = stream
        .capture(|_| {
            add.launch(
                &stream,
                1000,
                (&mut data, constant(1000u32), constant(long())),
            )
        })
        .unwrap();
    drop(add);
    let mut exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&stream, (&mut data,)).unwrap();
    drop(data);
    drop(exec);
    stream.synchronize().unwrap();
    device.runtime().reclaim().unwrap();
}

#[test]
fn host_guards_hold_launches_off_without_concurrent_access() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let guarded = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream
        .capture(|_| data.fill_on(constant(4), &stream))
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    let guard = guarded.host().unwrap();
    let busy = exec.launch(&stream, (&mut data,)).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    drop(guard);
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(data.to_vec().unwrap(), [4; 10]);
}

#[test]
fn other_devices_and_runtimes_are_refused() {
    let (_sim, device, stream) = device();
    let graph = stream.capture(|_| Ok(())).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let (_other, runtime) = unwatched();
    let stranger = runtime.device(0).unwrap().create_stream().unwrap();
    let refused = exec.launch(&stranger, ());
    match std::env::var_os("CUDA_UM_TEST_RUNTIME").is_some() {
        // Two runtimes over one driver.
        true => drop(refused),
        false => assert!(
            matches!(refused, Err(Error::RuntimeMismatch { .. })),
            "{refused:?}"
        ),
    }
    exec.launch(&stream, ()).unwrap();
    drop(device);
}

#[test]
fn the_memory_of_a_graph_has_one_executable_graph_at_a_time() {
    let (_sim, device, stream) = device();
    let capture = || {
        let captured = stream
            .capture(|_| UnifiedBuffer::<u32>::zeroed(&device, 64)?.fill_on(constant(1), &stream));
        captured.unwrap()
    };
    let graph = capture();
    let mut exec = graph.instantiate().unwrap();
    let busy = graph.instantiate().unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    exec.launch(&stream, ()).unwrap();
    drop(exec);
    // An executable graph may move to another thread.
    let mut second = graph.instantiate().unwrap();
    std::thread::scope(|scope| scope.spawn(|| second.launch(&stream, ()).unwrap()).join()).unwrap();
}

#[test]
fn a_launch_on_another_stream_is_no_part_of_a_capture() {
    let (_sim, device, stream) = device();
    let other = device.create_stream().unwrap();
    let mut advised = UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap();
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let first = stream.capture(|_| {
        advised.advise(Advice::SetReadMostly)?;
        advised.fill_on(constant(3), &stream)
    });
    let mut first = first.unwrap().instantiate().unwrap();
    let second = stream.capture(|_| {
        first.launch(&other, (&mut advised,))?;
        data.fill_on(constant(1), &stream)
    });
    assert_eq!(advised.host().unwrap()[0], 3);
    let mut second = second.unwrap().instantiate().unwrap();
    second.launch(&stream, (&mut data,)).unwrap();
}
