//! The pool of device memory, in a driver pool and in slabs: order, limits, trimming, statistics, failures, threads.

mod support;

use cuda_um::{
    Device, DeviceBuffer, DevicePool, Element, Error, ErrorKind, PinnedBuffer, PoolOptions, Stream,
    UnifiedBuffer,
};
use cuda_um_sim::{Fail, Gpu, Leak};
use cuda_um_sys::cudaError;
use support::{Add, Checked, calls, device, no_memory_left, simulated, simulated_with};

const MIB: usize = 1 << 20;

/// An H200 with a driver that has memory pools, or has none.
fn machine(ordered: bool) -> (Checked, Device, Stream) {
    let simulated = simulated(Gpu::H200);
    if !ordered {
        let refused = Fail::call("cudaMemPoolCreate").with(cudaError::cudaErrorNotSupported);
        simulated.0.fail(refused.from_then_on());
    }
    simulated
}

fn pool(device: &Device) -> DevicePool {
    DevicePool::new(device, PoolOptions::default().slab_bytes(8 * MIB)).unwrap()
}

fn taken<T: Element>(pool: &DevicePool, len: usize) -> DeviceBuffer<T> {
    let buffer = pool.uninit(len).unwrap();
    #[allow(unsafe_code, reason = "the tests check the effects of an allocation")]
    // SAFETY: the tests write it first; any bytes are a valid element.
    unsafe {
        buffer.assume_init()
    }
}

fn contents(buffer: &DeviceBuffer<u32>) -> Vec<u32> {
    let mut host = vec![0; buffer.len()];
    buffer.copy_to_host(&mut host).unwrap();
    host
}

/// Drops a buffer while its kernel is paused.
fn leave_in_use(pool: &DevicePool, add: &Add, stream: &Stream, len: usize) {
    let mut buffer = pool.zeroed::<u32>(len).unwrap();
    add.launch(stream, len, (&mut buffer, len as u32, 1u32))
        .unwrap();
}

#[test]
fn no_other_device_reaches_memory_of_a_drivers_pool() {
    let (sim, first, on_first) = simulated_with(|builder| builder.devices(3));
    let second = first.runtime().device(1).unwrap();
    let (on_second, on_third) = {
        let third = first.runtime().device(2).unwrap();
        (second.stream().unwrap(), third.stream().unwrap())
    };
    let (pool_here, pool_there) = (pool(&first), pool(&second));
    let mut here = pool_here.from_slice(&[1u32, 2, 3]).unwrap();
    let mut there = pool_there.zeroed::<u32>(3).unwrap();
    let mut plain = DeviceBuffer::<u32>::zeroed(&second, 3).unwrap();
    let mut managed = UnifiedBuffer::<u32>::zeroed(&second, 3).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&second, 3).unwrap();

    // The driver gets both devices, so a stream of either device works.
    on_first.copy(&here, &mut there).unwrap();
    on_second.copy(&there, &mut plain).unwrap();
    assert_eq!(contents(&plain), [1, 2, 3]);
    here.fill(9, &on_first).unwrap();
    on_second.copy_range(&here, 1..3, &mut plain, 0).unwrap();
    on_first.copy_range(&plain, 0..1, &mut here, 2).unwrap();
    assert_eq!(
        (contents(&plain), contents(&here)),
        (vec![9, 9, 3], vec![9, 9, 9])
    );
    assert_eq!(calls(&sim, "cudaMemcpyPeerAsync"), 3);
    // All other copies must be on the pool's device.
    on_first.copy(&here, &mut managed).unwrap();
    on_first.copy(&here, &mut pinned).unwrap();
    assert_eq!(
        (managed.host().unwrap()[0], pinned.host().unwrap()[2]),
        (9, 9)
    );
    for refused in [
        on_second.copy(&here, &mut managed),
        on_second.copy(&pinned, &mut here),
        on_third.copy(&here, &mut there),
        on_second.copy(&pool_here.from_slice(&[5u32; 3]).unwrap(), &mut here),
        here.fill(1, &on_second),
    ] {
        let Err(Error::DeviceMismatch {
            expected, found, ..
        }) = refused
        else {
            panic!("{refused:?}")
        };
        assert!(expected == 0 && found > 0, "{expected} {found}");
    }
    assert_eq!(contents(&here), [9, 9, 9], "nothing was written");
    // Memory of `cudaMalloc` does not belong to a pool.
    on_first.copy(&pinned, &mut plain).unwrap();
    assert_eq!(contents(&plain), [9, 9, 9]);
}

#[test]
fn the_device_decides_where_the_memory_is() {
    for (gpu, ordered) in [(Gpu::H200, true), (Gpu::Maxwell, false)] {
        let (sim, device, _) = simulated(gpu);
        let pool = pool(&device);
        assert_eq!(device.capabilities().memory_pools, ordered);
        assert_eq!(pool.is_stream_ordered(), ordered);
        assert_eq!(format!("{pool:?}").contains("driver's pool"), ordered);
        drop(pool.from_slice(&[1u8; 100]).unwrap());
        assert_eq!(calls(&sim, "cudaMallocFromPoolAsync"), usize::from(ordered));
        assert_eq!(calls(&sim, "cudaMalloc"), usize::from(!ordered));
    }
    // A device that reports pools, but cannot create any.
    let (sim, device, _) = simulated(Gpu::H200);
    sim.fail(Fail::call("cudaMemPoolCreate").with(cudaError::cudaErrorNotSupported));
    let slabs = pool(&device);
    assert!(!slabs.is_stream_ordered());
    assert_eq!(contents(&slabs.from_slice(&[5; 3]).unwrap()), [5; 3]);
    // Any other failure is returned, and nothing is left of the attempt.
    for call in ["cudaMemPoolCreate", "cudaMemPoolSetAttribute"] {
        sim.fail(Fail::call(call).with(cudaError::cudaErrorInvalidValue));
        let error = DevicePool::new(&device, PoolOptions::default()).unwrap_err();
        assert!(
            matches!(&error, Error::Call { call: found, .. } if *found == call),
            "{error}"
        );
    }
    assert_eq!(calls(&sim, "cudaMemPoolDestroy"), 1);
}

#[test]
fn contents_are_right_and_apart() {
    let (_sim, device, stream) = device();
    let (pool, add) = (pool(&device), Add::load(&device));
    let mut buffers = Vec::new();
    for index in 0..100u32 {
        let len = 1 + (index as usize * 7919) % 9000;
        let mut buffer = pool.from_slice(&vec![index; len]).unwrap();
        let value = if index % 3 == 0 {
            add.launch(&stream, len, (&mut buffer, len as u32, 5u32))
                .unwrap();
            index + 5
        } else {
            index
        };
        buffers.push((value, buffer));
        if index % 2 == 0 {
            buffers.swap_remove((index as usize * 31) % buffers.len());
        }
    }
    for (expected, buffer) in &buffers {
        assert!(contents(buffer).iter().all(|value| value == expected));
    }
    assert!(pool.zeroed::<u64>(0).unwrap().is_empty());
    let error = pool.uninit::<u64>(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn dropped_memory_is_used_again() {
    for ordered in [true, false] {
        let (sim, device, stream) = machine(ordered);
        let pool = pool(&device);
        for _ in 0..50 {
            pool.zeroed::<u32>(100_000)
                .unwrap()
                .fill(3, &stream)
                .unwrap();
            device.synchronize().unwrap();
        }
        let stats = pool.stats();
        assert!(stats.reserved_bytes <= 8 * MIB, "{stats:?}");
        assert!(
            stats.reserved_bytes > 0,
            "kept until it is trimmed: {stats:?}"
        );
        assert_eq!(pool.trim(), stats.reserved_bytes);
        assert_eq!(pool.stats().reserved_bytes, 0);
        drop(pool);
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn a_drop_in_use_waits_for_nothing_and_the_next_owner_comes_after() {
    for ordered in [true, false] {
        let (sim, device, first) = machine(ordered);
        let second = device.stream().unwrap();
        let (pool, add) = (pool(&device), Add::load(&device));
        device.synchronize().unwrap();
        let paused = sim.pause();
        // Each of these waits for the previous one, but not for the host.
        for stream in [&first, &second, &first] {
            leave_in_use(&pool, &add, stream, 1000);
        }
        let mut next = taken::<u32>(&pool, 1000);
        next.set_zero(&second).unwrap();
        add.launch(&first, 1000, (&mut next, 1000u32, 7u32))
            .unwrap();
        for blocking in ["cudaStreamSynchronize", "cudaEventSynchronize", "cudaFree"] {
            assert_eq!(calls(&sim, blocking), 0, "{blocking}");
        }
        drop(paused);
        assert_eq!(contents(&next), [7; 1000]);
        drop((next, pool, add));
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn the_free_is_enqueued_behind_every_use() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.stream().unwrap();
    let pool = pool(&device);
    let source = pool.from_slice(&[4u32; 100]).unwrap();
    let mut copies = [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap());
    device.synchronize().unwrap();
    let paused = sim.pause();
    for (stream, copy) in [&first, &second].into_iter().zip(&mut copies) {
        stream.copy(&source, copy).unwrap();
    }
    sim.clear_trace();
    drop(source);
    let names: Vec<_> = sim
        .trace()
        .iter()
        .map(|call| call.name.to_owned())
        .collect();
    let order: Vec<_> = names
        .iter()
        .filter(|name| ["cudaStreamWaitEvent", "cudaFreeAsync"].contains(&name.as_str()))
        .collect();
    assert_eq!(
        order,
        [
            "cudaStreamWaitEvent",
            "cudaStreamWaitEvent",
            "cudaFreeAsync"
        ]
    );
    assert_eq!(pool.stats().live_buffers, 0, "for the pool it is gone");
    drop(paused);
    for copy in &copies {
        assert_eq!(*copy.host().unwrap(), [4; 100]);
    }
    drop((pool, copies));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn work_on_another_stream_comes_after_the_allocation() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let paused = sim.pause();
    sim.clear_trace();
    let mut buffer = taken::<u32>(&pool, 100);
    assert_eq!(calls(&sim, "cudaEventRecord"), 0, "only at a wait");
    buffer.fill(6, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaStreamWaitEvent"), 1);
    drop(paused);
    assert_eq!(contents(&buffer), [6; 100]);
    buffer.close().unwrap();
    drop(pool);
    no_memory_left(&sim, device.runtime());
}

#[test]
fn the_limit_holds_and_names_itself() {
    for ordered in [true, false] {
        let (_sim, device, _) = machine(ordered);
        let options = PoolOptions::default()
            .slab_bytes(8 * MIB)
            .limit_bytes(12 * MIB);
        let pool = DevicePool::new(&device, options).unwrap();
        let mut kept: Vec<_> = (0..3)
            .map(|_| pool.uninit::<u8>(4 * MIB).unwrap())
            .collect();
        assert_eq!(pool.stats().reserved_bytes, 12 * MIB);
        let error = pool.uninit::<u8>(1).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("PoolOptions::limit_bytes") && text.contains("device memory"),
            "{text}"
        );
        let name = if ordered {
            "cudaMallocFromPoolAsync"
        } else {
            "cudaMalloc"
        };
        assert!(
            matches!(error, Error::OutOfMemory { call, free_bytes: 0, total_bytes, .. } if call == name && total_bytes == 12 * MIB),
            "{error}"
        );
        kept.pop();
        kept.push(pool.uninit::<u8>(4 * MIB).unwrap());
        assert_eq!(pool.stats().live_bytes, 12 * MIB);
    }
}

#[test]
fn out_of_memory_trims_and_tries_again() {
    for ordered in [true, false] {
        let (sim, device, _) = machine(ordered);
        let pool = pool(&device);
        drop(pool.uninit::<u8>(20 * MIB).unwrap());
        let name = if ordered {
            "cudaMallocFromPoolAsync"
        } else {
            "cudaMalloc"
        };
        let refused = Fail::call(name).with(cudaError::cudaErrorMemoryAllocation);
        sim.fail(refused.clone());
        let small = pool.from_slice(&[1u32; 100]).unwrap();
        assert_eq!(
            pool.stats().reserved_bytes,
            2 * MIB,
            "the 20 MiB went back before the second attempt"
        );
        sim.fail(refused.from_then_on());
        let error = pool.uninit::<u8>(4 * MIB).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { call, requested_bytes, total_bytes, .. }
                if call == name && requested_bytes == 4 * MIB && total_bytes > 0),
            "{error}"
        );
        sim.clear_failures();
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (1, 512));
        assert_eq!(contents(&small), [1; 100]);
        drop((small, pool));
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn a_full_device_serves_what_was_dropped() {
    let (sim, device, _) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let (pool, other) = (pool(&device), pool(&device));
    drop(pool.zeroed::<u8>(40 * MIB).unwrap());
    assert_eq!(other.stats().reserved_bytes, 0);
    // Memory in another pool is not available for this one; its own memory is.
    let error = other.uninit::<u8>(40 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    drop(pool.zeroed::<u8>(48 * MIB).unwrap());
    device.synchronize().unwrap();
    pool.trim();
    drop(other.zeroed::<u8>(40 * MIB).unwrap());
    drop((pool, other));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn trim_never_frees_under_work() {
    for ordered in [true, false] {
        let (sim, device, stream) = machine(ordered);
        let (pool, add) = (pool(&device), Add::load(&device));
        let kept = pool.from_slice(&[9u32; 100]).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        leave_in_use(&pool, &add, &stream, 2 * MIB);
        let trimmed = pool.trim();
        assert_eq!(
            trimmed,
            if ordered { 0 } else { 8 * MIB },
            "the driver's pool keeps what is in use, a slab is freed later"
        );
        assert_eq!(calls(&sim, "cudaFree"), 0);
        drop(paused);
        device.runtime().reclaim().unwrap();
        device.synchronize().unwrap();
        assert_eq!(pool.trim(), if ordered { 8 * MIB } else { 0 });
        assert_eq!(contents(&kept), [9; 100]);
        drop((kept, pool, add));
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn a_pool_goes_with_its_last_buffer() {
    for ordered in [true, false] {
        let (sim, device, stream) = machine(ordered);
        let pool = pool(&device);
        let mut buffer = pool.clone().zeroed::<u32>(100).unwrap();
        let closed = pool.zeroed::<u32>(100).unwrap();
        drop(pool);
        closed.close().unwrap();
        buffer.fill(6, &stream).unwrap();
        assert_eq!(contents(&buffer), [6; 100]);
        let paused = sim.pause();
        buffer.fill(7, &stream).unwrap();
        drop(buffer);
        drop(paused);
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn the_numbers_add_up() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let pool = pool(&device);
    assert_eq!(pool.stats(), Default::default());
    let (a, b) = (
        pool.uninit::<u8>(100).unwrap(),
        pool.uninit::<u8>(3 * MIB).unwrap(),
    );
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.slabs), (2, 0));
    assert_eq!(stats.live_bytes, 256 + 3 * MIB);
    assert_eq!(stats.reserved_bytes, 4 * MIB);
    assert_eq!(stats.free_bytes, stats.reserved_bytes - stats.live_bytes);
    assert_eq!(stats.largest_free_bytes, stats.free_bytes);
    drop((a, b));
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
    assert_eq!(stats.peak_bytes, 256 + 3 * MIB);
    assert_eq!(stats.fragmentation(), 0.0);
}

#[test]
fn a_free_that_cannot_be_ordered_is_made_later() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (pool, add) = (pool(&device), Add::load(&device));
    let mut other = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    for call in ["cudaStreamWaitEvent", "cudaEventRecord"] {
        let mut buffer = pool.zeroed::<u32>(1000).unwrap();
        add.launch(&stream, 1000, (&mut buffer, 1000u32, 1u32))
            .unwrap();
        let paused = sim.pause();
        stream.copy(&buffer, &mut other).unwrap();
        sim.clear_trace();
        sim.fail(Fail::call(call));
        drop(buffer);
        assert_eq!(calls(&sim, "cudaFreeAsync"), 0, "{call}");
        drop(paused);
        device.runtime().reclaim().unwrap();
        assert_eq!(calls(&sim, "cudaFree"), 1, "{call}");
        assert_eq!(*other.host().unwrap(), [1; 1000]);
        assert_eq!(pool.stats().live_buffers, 0);
    }
    drop((pool, add, other));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn what_cannot_be_freed_is_leaked_and_counted() {
    let (sim, device, _) = simulated(Gpu::H200);
    sim.leaves(
        3,
        "their frees are refused, and so their pool stays",
        |leak| matches!(leak, Leak::Memory { bytes: 100, .. } | Leak::Pool),
    );
    let pool = pool(&device);
    let (lost, closed) = (
        pool.uninit::<u8>(100).unwrap(),
        pool.uninit::<u8>(100).unwrap(),
    );
    sim.fail(Fail::call("cudaFreeAsync"));
    drop(lost);
    assert_eq!(pool.stats().live_buffers, 2, "one is unknown to the pool");
    sim.fail(Fail::call("cudaFree"));
    assert!(matches!(
        closed.close(),
        Err(Error::Call {
            call: "cudaFree",
            ..
        })
    ));
    assert_eq!(pool.stats().live_bytes, 512);
    assert_eq!(contents(&pool.from_slice(&[1; 9]).unwrap()), [1; 9]);
    drop(pool);
}

#[test]
fn after_a_sticky_error_drops_are_harmless() {
    for ordered in [true, false] {
        let (sim, device, stream) = machine(ordered);
        let pool = pool(&device);
        let (idle, mut in_use) = (
            pool.zeroed::<u32>(100).unwrap(),
            pool.zeroed::<u32>(100).unwrap(),
        );
        device.synchronize().unwrap();
        in_use.fill(1, &stream).unwrap();
        sim.fail(Fail::call("cudaStreamQuery").with(cudaError::cudaErrorIllegalAddress));
        sim.breaks("an injected error breaks it");
        assert!(matches!(stream.is_idle(), Err(Error::Sticky { .. })));
        drop((idle, in_use));
        assert!(matches!(pool.zeroed::<u32>(MIB), Err(Error::Sticky { .. })));
        pool.trim();
        assert_eq!(pool.stats().live_buffers, if ordered { 2 } else { 0 });
        drop((pool, stream));
        let error = device.runtime().reclaim().unwrap_err();
        assert!(matches!(error, Error::Sticky { .. }), "{error}");
        let leaks = sim.leaks();
        let is_memory = |leak: &Leak| matches!(leak, Leak::Memory { .. });
        assert!(leaks.iter().any(is_memory), "rather than freed under work");
    }
}

#[test]
fn beside_a_host_guard_without_concurrent_access() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let pool = pool(&device);
    assert!(pool.is_stream_ordered());
    let mut managed = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut buffer = pool.zeroed::<u32>(100).unwrap();
    buffer.fill(1, &stream).unwrap();
    let guard = managed.host_mut().unwrap();
    assert_eq!(pool.uninit::<u8>(1).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(pool.stats().live_buffers, 1);
    sim.clear_trace();
    drop(buffer);
    device.runtime().reclaim().unwrap();
    assert_eq!(
        (calls(&sim, "cudaFreeAsync"), calls(&sim, "cudaFree")),
        (0, 1),
        "nothing is enqueued beside the guard"
    );
    drop(guard);
    drop(pool.uninit::<u8>(1).unwrap());
    drop((pool, managed));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn threads_allocate_launch_and_free() {
    for ordered in [true, false] {
        let (sim, device, _) = machine(ordered);
        let options = PoolOptions::default()
            .slab_bytes(4 * MIB)
            .limit_bytes(64 * MIB);
        let pool = DevicePool::new(&device, options).unwrap();
        let add = Add::load(&device);
        let (sender, receiver) = std::sync::mpsc::channel::<(u32, DeviceBuffer<u32>)>();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (pool, device, add, sender) = (&pool, &device, &add, sender.clone());
                scope.spawn(move || {
                    let streams = [device.stream().unwrap(), device.stream().unwrap()];
                    for round in 0..40u32 {
                        let len = 1 + (round as usize * 997 + thread as usize * 31) % 20_000;
                        let value = thread * 1000 + round;
                        let mut buffer = pool.from_slice(&vec![value; len]).unwrap();
                        let stream = &streams[round as usize % 2];
                        add.launch(stream, len, (&mut buffer, len as u32, 3u32))
                            .unwrap();
                        match round % 3 {
                            0 => drop(buffer),
                            1 => sender.send((value + 3, buffer)).unwrap(),
                            _ => assert!(contents(&buffer).iter().all(|found| *found == value + 3)),
                        }
                        if round % 16 == 0 {
                            pool.trim();
                        }
                    }
                });
            }
            drop(sender);
            for (expected, buffer) in receiver {
                assert!(contents(&buffer).iter().all(|found| *found == expected));
            }
        });
        assert_eq!((pool.stats().live_buffers, pool.stats().live_bytes), (0, 0));
        device.synchronize().unwrap();
        pool.trim();
        assert_eq!(pool.stats().reserved_bytes, 0);
        drop((pool, add));
        no_memory_left(&sim, device.runtime());
    }
}
