//! The pools from which buffers come by default.

use crate::pool::*;
use cuda_um::resource::ManagedMemory;
use cuda_um::{Advice, Location, Oversubscription, PinnedBuffer, UnifiedBuffer, UnifiedOptions};
use cuda_um_sim::{Leak, Sim};
use cuda_um_testkit::{again, calls, is_child, simulated};

/// The number of live allocations of a CUDA function.
fn live(sim: &Sim, call: &str) -> usize {
    let is_it = |leak: &&Leak| matches!(leak, Leak::Memory { kind, .. } if *kind == call);
    sim.leaks().iter().filter(is_it).count()
}

#[test]
fn buffers_of_each_kind_reuse_freed_memory() {
    let (sim, device, stream) = simulated(Gpu::H200);
    for len in [1, 1000, 5 * MIB, 40 * MIB] {
        for _ in 0..3 {
            let mut unified = UnifiedBuffer::<u8>::zeroed(&device, len).unwrap();
            let mut memory = DeviceBuffer::<u8>::zeroed(&device, len).unwrap();
            let pinned = PinnedBuffer::<u8>::zeroed(&device, len).unwrap();
            unified.fill_on(7, &stream).unwrap();
            stream.copy(&unified, &mut memory).unwrap();
            assert_eq!(memory.to_vec().unwrap(), vec![7; len]);
            assert_eq!(pinned.host().unwrap()[..], vec![0; len]);
        }
    }
    // A slab for the sizes below half a slab, and one for the largest.
    assert_eq!(calls(&sim, "cudaMallocManaged"), 2);
    assert_eq!(calls(&sim, "cudaMalloc"), 2);
    for kind in [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned] {
        let stats = device.pool_stats(kind).unwrap();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0), "{kind:?}");
        assert!(stats.reserved_bytes > 40 * MIB, "{kind:?}");
    }
}

#[test]
fn pages_that_stayed_on_the_device_are_not_prefetched_again() {
    let (sim, device, stream) = simulated(Gpu::H200);
    // The prefetches of a step and of the next buffer: its first use, and after each step that moves pages.
    let mut expected = 1;
    for (step, prefetches) in [
        ("kernels and copies", 0),
        ("a host guard", 1),
        ("a prefetch to the host", 2),
        ("a close", 0),
    ] {
        let buffer = UnifiedBuffer::from_slice(&device, &[7u32; 1000]).unwrap();
        assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), expected, "{step}");
        assert_eq!(buffer.to_vec().unwrap(), [7; 1000]);
        match step {
            "a host guard" => drop(buffer.host().unwrap()),
            "a prefetch to the host" => drop(buffer.prefetch_on(Location::Host, &stream)),
            "a close" => buffer.close().unwrap(),
            _ => {}
        }
        expected += prefetches;
    }
    UnifiedBuffer::from_slice(&device, &[7u32; 1000]).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), expected);
}

/// Small buffers share 2 MiB, which the driver may move as a whole; and it may move pages when advice is undone.
#[test]
fn pages_that_neighbours_or_advice_may_have_moved_are_prefetched_again() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let pool = device.pool(MemoryKind::Managed).unwrap().unwrap();
    let make = || UnifiedBuffer::<u32>::zeroed_in(&pool, 1000).unwrap();
    // The number of prefetches of a buffer in a block that was just freed.
    let prefetches = |meanwhile: &dyn Fn()| {
        drop(make());
        meanwhile();
        let before = calls(&sim, "cudaMemPrefetchAsync");
        drop(make());
        calls(&sim, "cudaMemPrefetchAsync") - before
    };
    let neighbour = make();
    assert_eq!(prefetches(&|| {}), 0);
    assert_eq!(prefetches(&|| drop(neighbour.host().unwrap())), 1);
    assert_eq!(prefetches(&|| {}), 0);
    let advised = || drop(make().advise(Advice::SetReadMostly).unwrap());
    assert_eq!(prefetches(&advised), 1);
    assert_eq!(prefetches(&|| {}), 0);
}

#[test]
fn large_slabs_beyond_the_bound_go_back_at_once() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let options = PoolOptions::default().keep_bytes(50 * MIB);
    device
        .set_pool_options(MemoryKind::Device, options)
        .unwrap();
    let make = |mib: usize| DeviceBuffer::<u8>::zeroed(&device, mib * MIB).unwrap();
    let buffers = [make(20), make(24), make(40)];
    device.synchronize().unwrap();
    drop(buffers);
    let stats = device.pool_stats(MemoryKind::Device).unwrap();
    assert_eq!((stats.free_bytes, stats.slabs), (44 * MIB, 2), "20 + 24");
    assert_eq!(live(&sim, "cudaMalloc"), 2);
    // The kept ones are used again.
    let kept = make(24);
    assert_eq!(calls(&sim, "cudaMalloc"), 3);
    drop(kept);
    assert_eq!(device.trim(), 44 * MIB);
    device.runtime().reclaim().unwrap();
    assert_eq!(live(&sim, "cudaMalloc"), 0);
}

/// On a device of 64 MiB, what the pools keep would leave no memory for others.
#[test]
fn an_allocation_that_finds_no_memory_takes_what_the_pools_keep() {
    let (sim, device, _stream) =
        simulated_with(|builder| builder.total_memory_bytes(64 * MIB as u64));
    let fill = || {
        let all: Vec<_> = (0..3)
            .map(|_| UnifiedBuffer::<u8>::zeroed(&device, 15 * MIB).unwrap())
            .collect();
        device.synchronize().unwrap();
        drop(all);
    };
    fill();
    let kept = device.pool_stats(MemoryKind::Managed).unwrap();
    let plain = ManagedMemory::new(&device);
    let large = UnifiedBuffer::<u8>::zeroed_in(&plain, 50 * MIB).unwrap();
    large.close().unwrap();
    fill();
    let large = DeviceBuffer::<u8>::zeroed(&device, 50 * MIB).unwrap();
    drop(large);
    assert!(kept.free_bytes > 0, "the pool kept something");
    drop(plain);
    assert!(device.trim() > 0);
    device.runtime().reclaim().unwrap();
    assert_eq!(live(&sim, "cudaMalloc"), 0);
}

#[test]
fn memory_that_may_oversubscribe_is_not_pooled() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    for round in 1..=2 {
        let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, 100, options).unwrap();
        buffer.close().unwrap();
        assert_eq!(calls(&sim, "cudaMallocManaged"), round);
    }
    assert_eq!(device.pool_stats(MemoryKind::Managed), None);
}

/// A buffer keeps the pools of its device, which its memory does not: they end with the last buffer.
#[test]
fn buffers_keep_the_pools() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let first = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let same = device.runtime().device(0).unwrap();
    let second = UnifiedBuffer::<u32>::zeroed(&same, 100).unwrap();
    assert_eq!(calls(&sim, "cudaMallocManaged"), 1);
    let pool = device.pool(MemoryKind::Managed).unwrap().unwrap();
    assert_eq!(pool.device().ordinal(), 0);
    assert_eq!(pool.stats().live_buffers, 2);
    drop((device, same, stream, pool));
    let third = UnifiedBuffer::<u32>::zeroed(second.device(), 100).unwrap();
    assert_eq!(calls(&sim, "cudaMallocManaged"), 1);
    assert_eq!(third.to_vec().unwrap(), first.to_vec().unwrap());
    drop((first, second));
    assert_eq!(live(&sim, "cudaMallocManaged"), 1);
    drop(third);
    assert_eq!(live(&sim, "cudaMallocManaged"), 0);
}

#[test]
fn a_variable_turns_the_pools_off() {
    if !is_child() {
        let mut test = again("pool::default::a_variable_turns_the_pools_off");
        assert!(test.env("CUDA_UM_POOLS", "off").status().unwrap().success());
        return;
    }
    let (sim, device, _stream) = simulated(Gpu::H200);
    drop(DeviceBuffer::<u8>::zeroed(&device, 100).unwrap());
    device.runtime().reclaim().unwrap();
    assert_eq!(live(&sim, "cudaMalloc"), 0);
    assert!(device.pool(MemoryKind::Device).unwrap().is_none());
}
