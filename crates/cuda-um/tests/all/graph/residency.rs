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

/// What is in place at the capture may be elsewhere at a launch, so no recorded prefetch is elided.
#[test]
fn recorded_prefetches_and_advice_are_steps_before_a_launch() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let data = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let steps = || ["cudaMemAdvise", "cudaMemPrefetchAsync"].map(|name| calls(&sim, name));
    data.prefetch_on(Location::Host, &stream).unwrap();
    let [advised, prefetched] = steps();
    let graph = stream.capture(|_| {
        data.advise(Advice::SetPreferredLocation(Location::Host))?;
        data.prefetch_on(Location::Host, &stream)?;
        // Those that are refused are no steps.
        assert!(data.prefetch_on(Location::Device(9), &stream).is_err());
        let skipped = copy.as_view().prefetch_on(Location::Host, &stream)?;
        assert!(!skipped.is_applied());
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
