//! The memory of a graph is brought in before a launch.

use cuda_um::{Advice, DeviceBuffer, Location, UnifiedBuffer, constant};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, calls, simulated};

#[test]
fn a_launch_prefetches_what_the_host_has_touched() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    // Small buffers of a pool share pages, so their place is a guess.
    let mut buffers: Vec<_> = (0..100)
        .map(|_| UnifiedBuffer::<u32>::zeroed(&device, 1 << 10).unwrap())
        .collect();
    let graph = stream.capture(|_| {
        let mut all = buffers.iter_mut();
        all.try_for_each(|data| {
            let arguments = (data, constant(1u32 << 10), constant(1u32));
            add.launch(&stream, 1 << 10, arguments)
        })
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    let names = ["cudaMemPrefetchBatchAsync", "cudaMemPrefetchAsync"];
    let prefetches = || names.map(|name| calls(&sim, name)).iter().sum::<usize>();
    let mut launch = |buffers: &mut Vec<UnifiedBuffer<u32>>| {
        let before = prefetches();
        device.synchronize().unwrap();
        let faults = sim.counters().gpu_faults;
        let mut arguments = cuda_um::kernel::Arguments::new();
        buffers.iter_mut().for_each(|data| arguments.push(data));
        exec.launch(&stream, arguments).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(sim.counters().gpu_faults, faults, "the graph faults");
        prefetches() - before
    };
    launch(&mut buffers);
    assert_eq!(launch(&mut buffers), 0, "everything is in place");
    buffers[7].host_mut().unwrap()[0] = 5;
    assert_eq!(launch(&mut buffers), 1);
    assert_eq!(launch(&mut buffers), 0);
    assert_eq!(buffers[7].host().unwrap()[0], 7);
}

#[test]
fn recorded_prefetches_and_advice_are_steps_before_a_launch() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let data = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let steps = || ["cudaMemAdvise", "cudaMemPrefetchAsync"].map(|name| calls(&sim, name));
    let [advised, prefetched] = steps();
    let graph = stream.capture(|_| {
        data.advise(Advice::SetPreferredLocation(Location::Host))?;
        data.prefetch_on(Location::Host, &stream)?;
        stream.copy(&data, &mut copy)
    });
    let graph = graph.unwrap();
    assert_eq!(steps(), [advised, prefetched]);
    let mut exec = graph.instantiate().unwrap();
    for _ in 0..2 {
        exec.launch(&stream, (&data, &mut copy)).unwrap();
    }
    stream.synchronize().unwrap();
    // The copy may have moved the pages, so each launch prefetches them again.
    assert_eq!(steps(), [advised + 1, prefetched + 2]);
}

/// What is in place at the capture may be elsewhere at a launch.
#[test]
fn a_recorded_prefetch_is_never_elided() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let data = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    data.prefetch_on(Location::Host, &stream).unwrap();
    let before = calls(&sim, "cudaMemPrefetchAsync");
    let graph = stream.capture(|_| data.prefetch_on(Location::Host, &stream).map(drop));
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), before);
    let mut exec = graph.unwrap().instantiate().unwrap();
    data.prefetch_on(&device, &stream).unwrap();
    stream.synchronize().unwrap();
    sim.reset_counters();
    exec.launch(&stream, (&data,)).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sim.counters().bytes_to_host, 4 << 20);
}

#[test]
fn a_prefetch_that_is_refused_is_no_step() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let data = UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap();
    let on_device = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let graph = stream.capture(|_| {
        assert!(data.prefetch_on(Location::Device(9), &stream).is_err());
        let skipped = on_device.as_view().prefetch_on(Location::Host, &stream)?;
        assert!(!skipped.is_applied());
        target.fill_on(constant(1), &stream)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut target,)).unwrap();
}
