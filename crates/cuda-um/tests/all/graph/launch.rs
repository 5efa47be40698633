//! Launches: one use of each buffer, ordered with all others.

use cuda_um::{Advice, DeviceBuffer, Error, UnifiedBuffer, constant};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, calls, device, fails, unpooled};

/// claim 3: the launch keeps the module, the graph and its memory
#[test]
fn buffers_and_graphs_may_be_dropped_while_a_launch_runs() {
    let (sim, device, stream) = unpooled(Gpu::default());
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let graph = stream.capture(|_| {
        let arguments = (&mut data, constant(1000u32), constant(1u32));
        add.launch(&stream, 1000, arguments)
    });
    drop(add);
    let mut exec = graph.unwrap().instantiate().unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    exec.launch(&stream, (&mut data,)).unwrap();
    drop((data, exec));
    assert!(!held.is_over(), "a drop waited");
    assert_eq!(calls(&sim, "cudaFree") + calls(&sim, "cuModuleUnload"), 0);
    drop(held);
    device.runtime().reclaim().unwrap();
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
    fails!(graph.instantiate(), Error::Busy { .. });
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
