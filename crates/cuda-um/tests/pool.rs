//! The pool: reuse in stream order, limits, trimming, statistics, threads.

mod support;

use cuda_um::{
    Advice, Device, Element, Error, ErrorKind, Location, PoolOptions, Stream, UnifiedBuffer,
    UnifiedPool,
};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_sys::cudaError;
use std::time::Duration;
use support::{Add, calls, device, no_memory_left, simulated, simulated_with};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn pool(device: &Device) -> UnifiedPool {
    UnifiedPool::new(device, PoolOptions::default().slab_bytes(8 * MIB)).unwrap()
}

/// Memory with its old contents, without a CUDA call and without a tracked use.
fn taken<T: Element>(pool: &UnifiedPool, len: usize) -> UnifiedBuffer<T> {
    let buffer = pool.uninit(len).unwrap();
    #[allow(
        unsafe_code,
        reason = "the tests check addresses, and contents from former owners"
    )]
    // SAFETY: the tests write it first, or read the data that they wrote through its former owner; any bytes are a valid
    // element.
    unsafe {
        buffer.assume_init()
    }
}

#[test]
fn a_warm_allocation_calls_nobody() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut first = pool.zeroed::<u32>(1000).unwrap();
    let address = first.as_ptr();
    first.fill(3, &stream).unwrap();
    drop(first);
    sim.clear_trace();
    for _ in 0..100 {
        let again = pool.uninit::<f32>(1000).unwrap();
        assert_eq!(again.len(), 1000);
    }
    assert!(sim.trace().is_empty(), "{:?}", sim.trace());
    let again = pool.zeroed::<u32>(990).unwrap();
    assert_eq!(again.as_ptr(), address, "990 elements fit as well");
    assert_eq!(*again.host().unwrap(), [0; 990]);
    drop((again, pool));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn contents_are_right_and_apart() {
    let (_sim, device, stream) = device();
    let pool = pool(&device);
    let add = Add::load(&device);
    let mut buffers = Vec::new();
    for index in 0..200u32 {
        let len = 1 + (index as usize * 7919) % 9000;
        let mut buffer = pool.from_slice(&vec![index; len]).unwrap();
        if index % 3 == 0 {
            add.launch(&stream, len, (&mut buffer, len as u32, 5u32))
                .unwrap();
        }
        buffers.push((index, buffer));
        if index % 2 == 0 {
            buffers.swap_remove((index as usize * 31) % buffers.len());
        }
    }
    for (index, buffer) in &buffers {
        let expected = index + if index % 3 == 0 { 5 } else { 0 };
        assert!(
            buffer
                .host()
                .unwrap()
                .iter()
                .all(|value| *value == expected)
        );
    }
}

#[test]
fn sizes_are_checked() {
    let (_sim, device, _) = device();
    let empty = pool(&device).zeroed::<u64>(0).unwrap();
    assert!(empty.is_empty() && empty.host().unwrap().is_empty());
    let error = pool(&device).uninit::<u64>(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    for bad in [0, MIB, 3 * MIB] {
        let error = UnifiedPool::new(&device, PoolOptions::default().slab_bytes(bad)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
}

/// A dropped buffer of the pool with memory that a paused stream still writes; this block is reused next.
fn leave_in_use(pool: &UnifiedPool, add: &Add, stream: &Stream) -> *const u32 {
    let mut buffer = pool.zeroed::<u32>(100).unwrap();
    add.launch(stream, 100, (&mut buffer, 100u32, 1u32))
        .unwrap();
    buffer.as_ptr()
}

#[test]
fn on_another_stream_the_next_owner_comes_after_the_last() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.stream().unwrap();
    let (pool, add) = (pool(&device), Add::load(&device));
    drop(pool.zeroed::<u32>(100).unwrap());
    device.synchronize().unwrap();

    let paused = sim.pause();
    let address = leave_in_use(&pool, &add, &first);
    sim.clear_trace();
    let mut next = taken::<u32>(&pool, 100);
    assert!(
        sim.trace().is_empty(),
        "allocating records and waits for nothing"
    );
    next.set_zero(&first).unwrap();
    assert_eq!(
        (
            calls(&sim, "cudaEventRecord"),
            calls(&sim, "cudaStreamWaitEvent")
        ),
        (0, 0),
        "one stream needs no events"
    );
    drop(next);
    let mut next = taken::<u32>(&pool, 100);
    next.set_zero(&second).unwrap();
    assert_eq!(
        (
            calls(&sim, "cudaEventRecord"),
            calls(&sim, "cudaStreamWaitEvent")
        ),
        (1, 1)
    );
    assert_eq!(next.as_ptr(), address);
    add.launch(&second, 100, (&mut next, 100u32, 7u32)).unwrap();
    assert_eq!(
        next.try_host().map(drop).unwrap_err().kind(),
        ErrorKind::Busy
    );
    drop(paused);
    assert_eq!(*next.host().unwrap(), [7; 100]);
    drop((next, pool, add));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn the_host_comes_after_the_last_owner() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let (pool, add) = (pool(&device), Add::load(&device));
        drop(pool.zeroed::<u32>(100).unwrap());
        device.synchronize().unwrap();
        let paused = sim.pause();
        let address = leave_in_use(&pool, &add, &stream);
        let mut next = taken::<u32>(&pool, 100);
        assert_eq!(next.as_ptr(), address);
        assert_eq!(
            next.try_host_mut().map(drop).unwrap_err().kind(),
            ErrorKind::Busy
        );
        assert_eq!(
            next.try_host().map(drop).unwrap_err().kind(),
            ErrorKind::Busy
        );
        let resume = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(paused);
        });
        assert_eq!(
            next.host_mut().unwrap()[99],
            1,
            "the former owner's kernel is done"
        );
        resume.join().unwrap();
        drop((next, pool, add));
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn a_reader_of_the_last_owner_holds_off_the_next_writer() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.stream().unwrap();
    let pool = pool(&device);
    let old = pool.from_slice(&[4u32; 100]).unwrap();
    let mut copy = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    first.copy(&old, &mut copy).unwrap();
    drop(old);
    let mut next = taken::<u32>(&pool, 100);
    next.set_zero(&second).unwrap();
    drop((next, paused));
    assert_eq!(*copy.host().unwrap(), [4; 100]);
}

#[test]
fn memory_is_carved_anew_with_the_work_that_uses_it() {
    let (sim, device, first) = simulated(Gpu::H200);
    let second = device.stream().unwrap();
    let options = PoolOptions::default()
        .slab_bytes(2 * MIB)
        .limit_bytes(2 * MIB);
    let pool = UnifiedPool::new(&device, options).unwrap();
    let add = Add::load(&device);
    let mut small: Vec<_> = (0..32)
        .map(|_| pool.zeroed::<u32>(16 * KIB).unwrap())
        .collect();
    assert_eq!(pool.stats().free_bytes, 0);
    let error = pool.uninit::<u32>(16 * KIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(
        error.to_string().contains("limit of 2097152 bytes"),
        "{error}"
    );
    device.synchronize().unwrap();
    let paused = sim.pause();
    for buffer in &mut small {
        add.launch(&first, 16 * KIB, (buffer, (16 * KIB) as u32, 1u32))
            .unwrap();
    }
    drop(small);
    sim.clear_trace();
    let mut large = taken::<u32>(&pool, 256 * KIB);
    large.set_zero(&second).unwrap();
    assert_eq!(
        calls(&sim, "cudaMallocManaged"),
        0,
        "made of the small ones"
    );
    assert_eq!(calls(&sim, "cudaStreamWaitEvent"), 1);
    drop(paused);
    assert!(large.host().unwrap().iter().all(|value| *value == 0));
    drop((large, pool, add));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn trim_gives_back_what_nobody_uses() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (pool, add) = (pool(&device), Add::load(&device));
    let kept = pool.from_slice(&[1u8; 100]).unwrap();
    let mut in_use = pool.zeroed::<u32>(2 * MIB).unwrap();
    let idle = pool.zeroed::<u8>(16 * MIB).unwrap();
    device.synchronize().unwrap();
    assert_eq!(pool.stats().slabs, 3);
    assert_eq!(pool.trim(), 0, "each has a live buffer");
    drop(idle);
    let paused = sim.pause();
    add.launch(&stream, 100, (&mut in_use, 100u32, 1u32))
        .unwrap();
    drop(in_use);
    assert_eq!(pool.trim(), 24 * MIB);
    assert_eq!(pool.stats().reserved_bytes, 8 * MIB);
    assert_eq!(
        calls(&sim, "cudaFree"),
        0,
        "never while work uses it, and no call waits"
    );
    drop(paused);
    device.runtime().reclaim().unwrap();
    assert_eq!(calls(&sim, "cudaFree"), 2);
    drop(kept);
    device.synchronize().unwrap();
    assert_eq!((pool.trim(), calls(&sim, "cudaFree")), (8 * MIB, 3));
    assert_eq!(pool.trim(), 0);
    drop((pool, add));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn a_pool_goes_with_its_last_buffer() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut buffer = pool.clone().zeroed::<u32>(100).unwrap();
    let closed = pool.zeroed::<u32>(100).unwrap();
    drop(pool);
    closed.close().unwrap();
    buffer.fill(6, &stream).unwrap();
    assert_eq!(buffer.host().unwrap()[99], 6);
    let paused = sim.pause();
    buffer.fill(7, &stream).unwrap();
    drop(buffer);
    assert_eq!(calls(&sim, "cudaFree"), 0);
    drop(paused);
    no_memory_left(&sim, device.runtime());
}

#[test]
fn a_slab_that_lost_a_block_is_never_freed() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut lost = pool.zeroed::<u32>(100).unwrap();
    let whole = pool.zeroed::<u32>(2 * MIB).unwrap();
    lost.fill(1, &stream).unwrap();
    sim.fail(Fail::call("cudaStreamSynchronize").with(cudaError::cudaErrorIllegalAddress));
    sim.breaks("an injected error breaks it");
    let error = lost.close().unwrap_err();
    assert!(matches!(error, Error::Sticky { .. }), "{error}");
    assert_eq!(pool.stats().live_buffers, 2, "the block did not come back");
    assert_eq!(pool.trim(), 0);
    drop((whole, pool));
    assert!(device.runtime().reclaim().is_err());
    assert_eq!(calls(&sim, "cudaFree"), 0);
}

#[test]
fn numbers_of_pooled_buffers_are_their_own() {
    let (_sim, device, _) = device();
    let pool = pool(&device);
    let take = || (0..400).map(|_| pool.uninit::<u8>(1).unwrap().id());
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| take().collect::<Vec<_>>()))
            .collect();
        let taken = threads.into_iter().map(|one| one.join().unwrap());
        taken.flatten().collect()
    });
    let apart: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(apart.len(), 1600);
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
    // Each thread had one buffer at a time, and its freed block stayed counted in its shard.
    assert!((256..=4 * 256).contains(&stats.peak_bytes), "{stats:?}");
}

#[test]
fn out_of_memory_trims_and_tries_again() {
    let (sim, device, _) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let options = PoolOptions::default().slab_bytes(16 * MIB);
    let pool = UnifiedPool::new(&device, options).unwrap();
    drop(pool.uninit::<u8>(40 * MIB).unwrap());
    let kept = pool.uninit::<u8>(4 * MIB).unwrap();
    drop(pool.uninit::<u8>(44 * MIB).unwrap());
    assert_eq!(calls(&sim, "cudaFree"), 1, "the 40 MiB made room");
    let error = pool.uninit::<u8>(60 * MIB).unwrap_err();
    let Error::OutOfMemory {
        requested_bytes,
        total_bytes,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((requested_bytes, total_bytes), (60 * MIB, 64 * MIB));
    // CUDA refuses the allocation itself: the second attempt allocates no more than necessary.
    sim.fail(Fail::call("cudaMallocManaged").with(cudaError::cudaErrorMemoryAllocation));
    let large = pool.uninit::<u8>(20 * MIB).unwrap();
    sim.fail(
        Fail::call("cudaMallocManaged")
            .with(cudaError::cudaErrorMemoryAllocation)
            .from_then_on(),
    );
    let error = pool.uninit::<u8>(16 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    sim.clear_failures();
    assert_eq!(pool.stats().live_buffers, 2);
    drop((kept, large, pool));
}

#[test]
fn the_limit_holds_and_names_itself() {
    let (_sim, device, _) = device();
    let options = PoolOptions::default()
        .slab_bytes(8 * MIB)
        .limit_bytes(12 * MIB);
    let pool = UnifiedPool::new(&device, options).unwrap();
    let first = pool.uninit::<u8>(4 * MIB).unwrap();
    let second = pool.uninit::<u8>(4 * MIB).unwrap();
    let third = pool.uninit::<u8>(4 * MIB).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 12 * MIB, "a smaller slab");
    let error = pool.uninit::<u8>(1).unwrap_err();
    assert!(
        error.to_string().contains("PoolOptions::limit_bytes"),
        "{error}"
    );
    drop((first, second));
    let large = pool.uninit::<u8>(8 * MIB).unwrap();
    assert!(pool.stats().reserved_bytes <= 12 * MIB);
    drop((third, large));
}

#[test]
fn the_numbers_add_up() {
    let (_sim, device, _) = device();
    let pool = pool(&device);
    assert_eq!(pool.stats(), Default::default());
    let a = pool.uninit::<u8>(100).unwrap();
    let b = pool.uninit::<u8>(70 * KIB).unwrap();
    let c = pool.uninit::<u8>(5 * MIB).unwrap();
    let stats = pool.stats();
    assert_eq!(stats.live_bytes, 256 + 80 * KIB + 6 * MIB);
    assert_eq!((stats.live_buffers, stats.slabs), (3, 2));
    assert_eq!(stats.reserved_bytes, 14 * MIB);
    assert_eq!(stats.free_bytes, stats.reserved_bytes - stats.live_bytes);
    drop((a, b, c));
    let stats = pool.stats();
    assert_eq!((stats.live_bytes, stats.live_buffers), (0, 0));
    assert_eq!(stats.peak_bytes, 256 + 80 * KIB + 6 * MIB);
    assert!(
        stats.fragmentation() > 0.0 && stats.fragmentation() < 1.0,
        "{stats:?}"
    );
    assert!(stats.largest_free_bytes >= 6 * MIB);
    pool.trim();
    assert_eq!(
        (pool.stats().reserved_bytes, pool.stats().fragmentation()),
        (0, 0.0)
    );
    assert!(format!("{pool:?}").contains("peak_bytes"));
}

#[test]
fn blocks_are_aligned_within_their_slab() {
    let (_sim, device, _) = device();
    let pool = pool(&device);
    let mut kept = Vec::new();
    for (bytes, align) in [
        (1, 256),
        (64 * KIB, 64 * KIB),
        (5 * KIB, 4 * KIB),
        (80 * KIB, 16 * KIB),
        (2 * MIB, 2 * MIB),
        (300 * KIB, 64 * KIB),
        (3 * MIB, 2 * MIB),
    ] {
        let buffer = taken::<u8>(&pool, bytes);
        let at = buffer.as_ptr() as usize;
        kept.push(buffer);
        // The first one is at the start of the slab. GPUs align slabs to 2 MiB, the simulator to pages.
        let offset = at - kept[0].as_ptr() as usize;
        assert!(offset.is_multiple_of(align), "{bytes} at {offset}");
        assert!(at.is_multiple_of(align.min(4 * KIB)), "{bytes} at {at:x}");
    }
}

#[test]
fn advice_ends_with_its_owner() {
    let (_sim, device, _) = device();
    if !support::is_concurrent(&device) {
        return;
    }
    let (pool, here) = (pool(&device), Location::from(&device));
    let bystander = pool.zeroed::<u8>(64 * KIB).unwrap();
    bystander.advise(Advice::SetReadMostly).unwrap();
    for _ in 0..2 {
        let first = pool.zeroed::<u8>(64 * KIB).unwrap();
        let address = first.as_ptr();
        let attributes = first.range_attributes().unwrap();
        assert!(
            !attributes.read_mostly
                && attributes.preferred_location.is_none()
                && attributes.accessed_by.is_empty(),
            "{attributes:?}"
        );
        first.advise_range(..100, Advice::SetReadMostly).unwrap();
        first.advise(Advice::SetReadMostly).unwrap();
        first
            .advise(Advice::SetPreferredLocation(Location::Host))
            .unwrap();
        first.advise(Advice::SetPreferredLocation(here)).unwrap();
        first.advise(Advice::SetAccessedBy(here)).unwrap();
        first.advise(Advice::SetAccessedBy(Location::Host)).unwrap();
        first.advise(Advice::UnsetAccessedBy(here)).unwrap();
        drop(first);
        let second = taken::<u8>(&pool, 64 * KIB);
        let attributes = second.range_attributes().unwrap();
        assert!(
            !attributes.read_mostly
                && attributes.preferred_location.is_none()
                && attributes.accessed_by.is_empty(),
            "{attributes:?}"
        );
        assert_eq!(second.as_ptr(), address);
    }
    assert!(bystander.range_attributes().unwrap().read_mostly);
}

#[test]
fn advice_that_cannot_be_undone_is_not_passed_on() {
    let (sim, device, _) = simulated(Gpu::H200);
    let pool = pool(&device);
    let first = pool.zeroed::<u8>(64 * KIB).unwrap();
    first.advise(Advice::SetReadMostly).unwrap();
    drop(first);
    for name in ["cudaMemAdvise", "cudaMemAdvise_v2"] {
        sim.fail(Fail::call(name).with(cudaError::cudaErrorInvalidValue));
    }
    assert!(pool.uninit::<u8>(64 * KIB).is_err());
    assert_eq!(pool.stats().live_buffers, 0);
    let first = pool.uninit::<u8>(64 * KIB).unwrap();
    first.advise(Advice::SetReadMostly).unwrap();
    for name in ["cudaMemAdvise", "cudaMemAdvise_v2"] {
        sim.fail(Fail::call(name).with(cudaError::cudaErrorInvalidValue));
    }
    assert!(first.advise(Advice::UnsetReadMostly).is_err());
    drop(first);
    let second = pool.uninit::<u8>(64 * KIB).unwrap();
    assert!(!second.range_attributes().unwrap().read_mostly);
}

#[test]
fn threads_allocate_launch_and_free() {
    let (_sim, device, _) = device();
    if !support::is_concurrent(&device) {
        return;
    }
    let options = PoolOptions::default()
        .slab_bytes(4 * MIB)
        .limit_bytes(64 * MIB);
    let pool = UnifiedPool::new(&device, options).unwrap();
    let add = Add::load(&device);
    let (sender, receiver) = std::sync::mpsc::channel::<(u32, UnifiedBuffer<u32>)>();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (pool, device, add, sender) = (&pool, &device, &add, sender.clone());
            scope.spawn(move || {
                let streams = [device.stream().unwrap(), device.stream().unwrap()];
                for round in 0..60u32 {
                    let len = 1 + (round as usize * 997 + thread as usize * 31) % 20_000;
                    let value = thread * 1000 + round;
                    let mut buffer = pool.from_slice(&vec![value; len]).unwrap();
                    let stream = &streams[round as usize % 2];
                    add.launch(stream, len, (&mut buffer, len as u32, 3u32))
                        .unwrap();
                    match round % 3 {
                        0 => drop(buffer),
                        1 => sender.send((value + 3, buffer)).unwrap(),
                        _ => {
                            let host = buffer.host().unwrap();
                            assert!(host.iter().all(|found| *found == value + 3));
                        }
                    }
                    if round % 16 == 0 {
                        pool.trim();
                    }
                }
            });
        }
        drop(sender);
        for (expected, buffer) in receiver {
            assert!(
                buffer
                    .host()
                    .unwrap()
                    .iter()
                    .all(|found| *found == expected)
            );
        }
    });
    assert_eq!((pool.stats().live_buffers, pool.stats().live_bytes), (0, 0));
    device.synchronize().unwrap();
    pool.trim();
    assert_eq!(pool.stats().slabs, 0);
}

#[test]
fn without_concurrent_access_everything_works() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let (pool, add) = (pool(&device), Add::load(&device));
    for round in 1..4u32 {
        let mut buffer = pool.from_slice(&[round; 100]).unwrap();
        add.launch(&stream, 100, (&mut buffer, 100u32, 1u32))
            .unwrap();
        let guard = buffer.host_mut().unwrap();
        assert_eq!(*guard, [round + 1; 100]);
        let error = pool.zeroed::<u32>(100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "a guard lives");
    }
    drop((pool, add));
    no_memory_left(&sim, device.runtime());
}
