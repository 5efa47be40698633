//! Buffers, pools and operations in a trace.

use crate::alone::{alone, operations};
use cuda_um::{
    Advice, DeviceBuffer, Location, MemoryKind, PinnedBuffer, Pool, PoolOptions, UnifiedBuffer,
    managed::PrefetchBatch,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, device, simulated, without_pools};
use um_profile::Profiler;
use um_profile::trace::{Operation, OperationKind, Place, Trace};

fn buffer<'t>(trace: &'t Trace, name: &str) -> &'t um_profile::trace::Buffer {
    let found = trace.buffers.iter().find(|buffer| buffer.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", trace.buffers))
}

fn launches(trace: &Trace) -> Vec<&Operation> {
    operations(trace, |kind| matches!(kind, OperationKind::Launch { .. }))
}

#[test]
fn buffers_have_names_sites_and_lives() {
    let _alone = alone();
    let (_sim, device, stream) = device();
    without_pools(&device);
    let mut before = UnifiedBuffer::from_slice(&device, &[1.0f32; 100]).unwrap();
    let unused = UnifiedBuffer::from_slice(&device, &[1.0f32; 100]).unwrap();
    let profiler = Profiler::start(device.runtime()).unwrap();
    before.fill_on(2.0, &stream).unwrap();
    let line = line!() + 1;
    let on_device = DeviceBuffer::<u16>::uninit(&device, 50).unwrap();
    let mut pinned = PinnedBuffer::<u8>::zeroed(&device, 7).unwrap();
    pinned.set_name("staging");
    assert_eq!(pinned.name(), Some("staging"));
    drop(on_device);
    let trace = profiler.stop().unwrap();
    drop(unused);

    let before = buffer(&trace, "UnifiedBuffer<f32>[100]");
    assert_eq!((before.allocated, before.freed), (None, None));
    assert_eq!((before.bytes, before.element_bytes), (400, 4));
    let on_device = buffer(&trace, "DeviceBuffer<u16>[50]");
    let (made, gone) = (on_device.allocated.unwrap(), on_device.freed.unwrap());
    assert!(trace.start <= made && made <= gone && gone <= trace.end);
    assert!(!on_device.managed);
    let site = on_device.site.as_deref().unwrap();
    assert!(site.ends_with(&format!("attribution.rs:{line}")), "{site}");
    let pinned = buffer(&trace, "staging");
    assert!(pinned.allocated.is_some() && pinned.freed.is_none());
    // A buffer that no operation used is not in the trace.
    assert_eq!(trace.buffers.len(), 3, "{:?}", trace.buffers);
}

#[test]
fn buffers_of_a_pool_lie_in_their_slab() {
    let _alone = alone();
    let (_sim, device, stream) = device();
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let mut old = UnifiedBuffer::<f32>::zeroed_in(&pool, 1000).unwrap();
    old.set_name("old");
    for started_before in [true, false] {
        let fresh = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let profiler = Profiler::start(device.runtime()).unwrap();
        let pool = if started_before { &pool } else { &fresh };
        old.fill_on(1.0, &stream).unwrap();
        let mut new = UnifiedBuffer::<u64>::zeroed_in(pool, 3000).unwrap();
        new.set_name(String::from("new"));
        let trace = profiler.stop().unwrap();
        let slabs: Vec<_> = trace
            .buffers
            .iter()
            .filter(|buffer| buffer.name.starts_with("slab"))
            .collect();
        assert_eq!(slabs.len(), if started_before { 1 } else { 2 });
        for part in [buffer(&trace, "old"), buffer(&trace, "new")] {
            let slab = slabs
                .iter()
                .find(|slab| Some(slab.id) == part.slab)
                .unwrap();
            assert!(slab.managed && slab.slab.is_none());
            assert!(slab.address <= part.address);
            assert!(part.address + part.bytes <= slab.address + slab.bytes);
            assert_eq!((slab.allocated, slab.freed), (None, None));
        }
    }
}

#[test]
fn operations_say_what_they_concern() {
    let _alone = alone();
    let (_sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let profiler = Profiler::start(device.runtime()).unwrap();
    let mut a = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    a.set_name("a");
    let mut b = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    b.set_name("b");
    a.advise(Advice::SetPreferredLocation(Location::Host))
        .unwrap();
    a.host_mut().unwrap()[0] = 1;
    a.prefetch_on(&device, &stream).unwrap();
    a.prefetch_on(&device, &stream).unwrap();
    let part = a.view_mut(100..300).unwrap();
    add.launch(&stream, 200, (part, 200u32, 1u32)).unwrap();
    stream.copy_range(&a, 0..10, &mut b, 20).unwrap();
    b.copy_to_host_at(5, &mut [0; 7]).unwrap();
    let mut batch = PrefetchBatch::new();
    batch.add(&a).add(&b);
    batch.prefetch_on(Location::Host, &stream).unwrap();
    let kept = a.host().unwrap();
    let trace = profiler.stop().unwrap();
    drop(kept);

    let (a, b) = (buffer(&trace, "a").id, buffer(&trace, "b").id);
    let tail: Vec<_> = trace
        .operations
        .iter()
        // After the two fills that zero the buffers.
        .skip_while(|operation| !matches!(operation.kind, OperationKind::Advise { .. }))
        .map(|operation| {
            let accesses = operation.accesses.iter();
            let accesses: Vec<_> = accesses
                .map(|access| (access.buffer, access.offset, access.bytes, access.write))
                .collect();
            (operation.kind.clone(), accesses)
        })
        .collect();
    let to_device = |left_out| OperationKind::Prefetch {
        to: Place::Device(0),
        left_out,
    };
    let whole = 4 << 20;
    let expected = [
        (
            OperationKind::Advise {
                advice: "SetPreferredLocation".into(),
                place: Some(Place::Host),
            },
            vec![(a, 0, whole, false)],
        ),
        (OperationKind::Host, vec![(a, 0, whole, true)]),
        (to_device(false), vec![(a, 0, whole, false)]),
        (to_device(true), vec![(a, 0, whole, false)]),
        (
            OperationKind::Launch {
                kernel: "add".into(),
            },
            vec![(a, 400, 800, true)],
        ),
        (
            OperationKind::Copy,
            vec![(a, 0, 40, false), (b, 80, 40, true)],
        ),
        (OperationKind::Copy, vec![(b, 20, 28, false)]),
        (
            OperationKind::Prefetch {
                to: Place::Host,
                left_out: false,
            },
            vec![(a, 0, whole, false), (b, 0, 4000, false)],
        ),
        (OperationKind::Host, vec![(a, 0, whole, false)]),
    ];
    assert_eq!(tail, expected);
    assert!(
        trace
            .operations
            .windows(2)
            .all(|two| two[0].id + 1 == two[1].id)
    );
    assert!(
        trace
            .operations
            .is_sorted_by_key(|operation| operation.start)
    );
    // A guard that outlives the profile ends with it.
    assert_eq!(trace.operations.last().unwrap().end, trace.end);
    let streams: Vec<_> = trace.operations.iter().map(|one| one.stream).collect();
    assert!(streams.contains(&None) && streams.iter().any(Option::is_some));
}

#[test]
fn what_fails_is_no_operation() {
    let _alone = alone();
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let profiler = Profiler::start(device.runtime()).unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    sim.fail(cuda_um_sim::Fail::call("cuLaunchKernel"));
    add.launch(&stream, 100, (&mut data, 100u32, 1u32))
        .unwrap_err();
    add.launch(&stream, 100, (&mut data, 100u32, 1u32)).unwrap();
    let trace = profiler.stop().unwrap();
    let launched = launches(&trace);
    assert_eq!((launched.len(), trace.kernels.len()), (1, 1));
    assert_eq!(trace.kernels[0].operation, Some(launched[0].id));
}

#[test]
fn another_machine_in_the_process_is_not_in_the_trace() {
    let _alone = alone();
    let (_sim, device, _stream) = simulated(Gpu::H200);
    let (_other, other, _other_stream) = simulated(Gpu::H200);
    let work = || drop(UnifiedBuffer::<u32>::zeroed(&other, 100).unwrap());
    let ((), trace) = um_profile::profile(device.runtime(), work).unwrap();
    assert_eq!((trace.buffers.len(), trace.operations.len()), (0, 0));
}

/// A launch before the profile that runs within it: its run has no launch, and the next run has the right launch.
#[test]
fn a_kernel_that_was_launched_before_has_no_operation() {
    let _alone = alone();
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    stream.synchronize().unwrap();
    let paused = sim.pause();
    add.launch(&stream, 100, (&mut data, 100u32, 1u32)).unwrap();
    let profiler = Profiler::start(device.runtime()).unwrap();
    drop(paused);
    stream.synchronize().unwrap();
    add.launch(&stream, 100, (&mut data, 100u32, 1u32)).unwrap();
    let trace = profiler.stop().unwrap();
    let found: Vec<_> = trace.kernels.iter().map(|run| run.operation).collect();
    assert_eq!(found, [None, Some(launches(&trace)[0].id)]);
}
