//! The memory of a unified buffer, advice, prefetches, many of them in few calls, and CUDA's attributes of a range.

use cuda_um::{
    AccessPattern, Advice, Location, MemoryKind, Placement, Pool, PoolOptions, UnifiedBuffer,
    UnifiedOptions, managed::PrefetchBatch, managed::RangeAttributes,
};
use cuda_um_sim::{CudaVersion, Fail, Gpu, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, calls, device, is_concurrent, simulated, simulated_with, unpooled};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn pattern(pattern: AccessPattern) -> UnifiedOptions {
    UnifiedOptions::default().pattern(pattern)
}

#[test]
fn the_pattern_decides_and_says_why() {
    let (sim, device, _) = unpooled(Gpu::H200);
    let placed = |options, len: usize| {
        let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, len, options).unwrap();
        (buffer.placement(), buffer.range_attributes().ok())
    };
    let (general, _) = placed(pattern(AccessPattern::General), KIB);
    assert_eq!(
        (general.placement, general.advice),
        (Placement::Managed, None)
    );
    let text = "managed memory (General), since the pattern says nothing";
    assert_eq!(general.to_string(), text);
    let (read_mostly, given) = placed(pattern(AccessPattern::ReadMostly), KIB);
    assert_eq!(read_mostly.advice, Some(Advice::SetReadMostly));
    assert!(given.unwrap().read_mostly);
    let (resident, given) = placed(pattern(AccessPattern::DeviceResident), KIB);
    let here = Location::Device(0);
    assert_eq!(resident.advice, Some(Advice::SetPreferredLocation(here)));
    assert_eq!(given.unwrap().preferred_location, Some(here));
    for small in [AccessPattern::ReadBack, AccessPattern::StreamOnce] {
        for (bytes, placement, reason) in [
            (1, Placement::Mapped, "over the link takes less time"),
            (64 * MIB, Placement::Mapped, "over the link takes less time"),
            (64 * MIB + 1, Placement::Managed, "copies of so many bytes"),
        ] {
            let (placed, _) = placed(pattern(small), bytes);
            assert_eq!(placed.placement, placement, "{placed}");
            assert!(placed.reason.contains(reason), "{placed}");
        }
    }
    assert_eq!(calls(&sim, "cudaMemAdvise"), 2, "only what a pattern needs");

    let (_sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let options = pattern(AccessPattern::ReadMostly);
    let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, 3, options).unwrap();
    let placed = buffer.placement();
    assert_eq!(
        (placed.placement, placed.advice),
        (Placement::Managed, None)
    );
    assert!(
        placed.reason.contains("no concurrent managed access"),
        "{placed}"
    );
}

#[test]
fn read_mostly_waits_for_the_copy_before() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    buffer.copy_from_host(&[7; 1000]).unwrap();
    std::thread::scope(|scope| {
        let advised = scope.spawn(|| buffer.advise(Advice::SetReadMostly));
        // An arbitrary delay.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!advised.is_finished(), "the copy is still held");
        drop(paused);
        advised.join().unwrap().unwrap();
    });
    assert!(buffer.range_attributes().unwrap().read_mostly);
    assert_eq!(buffer.host().unwrap()[999], 7);
}

fn of(buffer: &UnifiedBuffer<u32>) -> RangeAttributes {
    buffer.range_attributes().unwrap()
}

fn is_unadvised(found: &RangeAttributes) -> bool {
    !found.read_mostly && found.preferred_location.is_none() && found.accessed_by.is_empty()
}

#[test]
fn advice_is_read_back() {
    let (_sim, device, stream) = device();
    if !is_concurrent(&device) {
        return;
    }
    let here = Location::from(&device);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let advise = |advice| buffer.advise(advice).unwrap();
    assert!(is_unadvised(&of(&buffer)), "{:?}", of(&buffer));
    advise(Advice::SetReadMostly);
    assert!(of(&buffer).read_mostly);
    advise(Advice::UnsetReadMostly);
    for location in [here, Location::Host] {
        advise(Advice::SetPreferredLocation(location));
        advise(Advice::SetAccessedBy(location));
        buffer.prefetch_on(location, &stream).unwrap();
        let found = of(&buffer);
        let places = [found.preferred_location, found.last_prefetch];
        assert_eq!(places, [Some(location); 2]);
    }
    let mut by = of(&buffer).accessed_by;
    by.sort_by_key(|location| *location == Location::Host);
    assert_eq!(by, [here, Location::Host]);
    advise(Advice::UnsetAccessedBy(here));
    advise(Advice::UnsetAccessedBy(Location::Host));
    advise(Advice::UnsetPreferredLocation);
    assert!(is_unadvised(&of(&buffer)), "{:?}", of(&buffer));
}

#[test]
fn advice_for_a_part_leaves_the_rest() {
    let (_sim, device, stream) = device();
    if !is_concurrent(&device) {
        return;
    }
    // Each half is far larger than a page of any size.
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 4 << 20).unwrap();
    let half = buffer.len() / 2;
    let [first, rest] = [0..half, half..2 * half].map(|part| buffer.view(part).unwrap());
    first.advise(Advice::SetReadMostly).unwrap();
    assert!(!of(&buffer).read_mostly, "not all pages are");
    rest.prefetch_on(Location::Host, &stream).unwrap();
    rest.advise(Advice::SetReadMostly).unwrap();
    let all = of(&buffer);
    assert!(all.read_mostly && all.last_prefetch != Some(Location::Host));
    first.prefetch_on(Location::Host, &stream).unwrap();
    assert_eq!(of(&buffer).last_prefetch, Some(Location::Host));
    let none = buffer.view(7..7).unwrap();
    none.advise(Advice::SetReadMostly).unwrap();
}

#[test]
fn numa_nodes_need_a_newer_runtime() {
    let at = Location::HostNuma(0);
    for cuda in [CudaVersion::V11_8, CudaVersion::V12_2, CudaVersion::V13_0] {
        let (_sim, device, stream) = simulated_with(|builder| builder.cuda(cuda));
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        let prefetched = buffer.prefetch_on(at, &stream).unwrap();
        let advised = buffer.advise(Advice::SetPreferredLocation(at)).unwrap();
        if cuda == CudaVersion::V11_8 {
            let text = "memory at host NUMA node 0 is not supported: it needs CUDA 12.2 or newer, and there is CUDA 11.8";
            for outcome in [prefetched, advised] {
                assert_eq!(outcome.require().unwrap_err().to_string(), text);
            }
            continue;
        }
        let found = of(&buffer);
        let places = [found.preferred_location, found.last_prefetch];
        assert_eq!(places, [Some(at); 2]);
    }
}

fn prefetches(sim: &Sim) -> usize {
    let names = [
        "cudaMemPrefetchAsync",
        "cudaMemPrefetchAsync_v2",
        "cudaMemPrefetchBatchAsync",
    ];
    names.iter().map(|name| calls(sim, name)).sum()
}

#[test]
fn sixty_four_buffers_of_a_pool_take_one_call() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let mut buffers: Vec<_> = (0..64u32)
        .map(|index| UnifiedBuffer::from_slice_in(&pool, &[index; 16 * KIB]).unwrap())
        .collect();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        buffer.host_mut().unwrap()[0] += index as u32;
    }
    sim.clear_trace();
    let batch = PrefetchBatch::from_iter(buffers.iter().rev());
    let prefetched = batch.prefetch_on(&device, &stream).unwrap();
    assert_eq!((prefetched.calls, prefetches(&sim)), (1, 1));
    stream.synchronize().unwrap();
    sim.reset_counters();
    let add = Add::load(&device);
    for buffer in &mut buffers {
        add.run(&stream, buffer, 16 * KIB, 1);
    }
    stream.synchronize().unwrap();
    assert_eq!(sim.counters().gpu_faults, 0, "all of it was there");
    for (index, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.host().unwrap()[0], 2 * index as u32 + 1);
    }
}

#[test]
fn what_does_not_touch_goes_apart() {
    for (cuda, expected) in [
        (CudaVersion::V11_8, 3),
        (CudaVersion::V12_9, 3),
        (CudaVersion::V13_0, 1),
    ] {
        let (sim, device, stream) = simulated_with(|builder| builder.cuda(cuda));
        let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let pooled: Vec<_> = (0..4)
            .map(|_| UnifiedBuffer::<u8>::zeroed_in(&pool, 64 * KIB).unwrap())
            .collect();
        let own = UnifiedBuffer::<f64>::zeroed(&device, 1000).unwrap();
        sim.clear_trace();
        let mut batch = PrefetchBatch::new();
        batch.add(&pooled[0]).add(&own);
        // Overlapping and adjacent ranges, and one after a gap.
        batch.add(pooled[0].view(1000..).unwrap());
        batch.add(pooled[1].view(..5000).unwrap());
        batch.add(pooled[2].view(8 * KIB..8 * KIB).unwrap());
        batch.add(pooled[3].view(100..200).unwrap());
        let prefetched = batch.prefetch_on(Location::Host, &stream).unwrap();
        assert_eq!((prefetched.calls, prefetches(&sim)), (expected, expected));
    }
}

#[test]
fn a_batch_that_failed_is_not_recorded_as_done() {
    let (sim, device, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V13_0));
    let [buffer, other] = [5000, MIB].map(|len| UnifiedBuffer::<u8>::zeroed(&device, len).unwrap());
    let batch = PrefetchBatch::from_iter([&buffer, &other]);
    batch.prefetch_on(Location::Host, &stream).unwrap();
    sim.fail(Fail::call("cudaMemPrefetchBatchAsync").with(cudaError::cudaErrorInvalidValue));
    let error = batch.prefetch_on(&device, &stream).unwrap_err().to_string();
    let text = "cudaMemPrefetchBatchAsync: 1053576 bytes in 2 ranges to device 0: ";
    assert!(error.starts_with(text), "{error}");
    assert_eq!(batch.prefetch_on(&device, &stream).unwrap().calls, 1);
    let none = PrefetchBatch::new().prefetch_on(&device, &stream).unwrap();
    assert_eq!(none.calls, 0, "nothing to do");

    let (_old, old, stream) = simulated(Gpu::NoConcurrentAccess);
    let buffer = UnifiedBuffer::<u8>::zeroed(&old, 5000).unwrap();
    let batch = PrefetchBatch::from_iter([&buffer]);
    let prefetched = batch.prefetch_on(Location::Host, &stream).unwrap();
    assert!(prefetched.calls == 0 && !prefetched.outcome.is_applied());
}
