//! The pool of pinned memory: reuse in stream order, addresses for kernels, limits, trimming, statistics, threads.

mod support;

use cuda_um::{Device, DeviceBuffer, Error, PinnedBuffer, PinnedPool, PoolOptions, Stream};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_sys::cudaError;
use support::{Add, calls, device, no_memory_left, simulated};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn pool(device: &Device) -> PinnedPool {
    PinnedPool::new(device, PoolOptions::default().slab_bytes(8 * MIB)).unwrap()
}

/// A dropped buffer that a paused stream still copies from; this block is reused next.
fn leave_in_use(
    pool: &PinnedPool,
    values: &[u32],
    to: &mut DeviceBuffer<u32>,
    stream: &Stream,
) -> *const u32 {
    let source = pool.from_slice(values).unwrap();
    stream.copy(&source, to).unwrap();
    source.as_ptr()
}

#[test]
fn one_slab_serves_many_buffers() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut on_device = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let first = pool.zeroed::<u32>(1000).unwrap();
    let address = first.as_ptr();
    assert_eq!(*first.host().unwrap(), [0; 1000]);
    drop(first);
    for round in 0..50u32 {
        let buffer = pool.from_slice(&[round; 990]).unwrap();
        assert_eq!(buffer.as_ptr(), address, "990 elements fit as well");
        assert_eq!(*buffer.host().unwrap(), [round; 990]);
    }
    assert_eq!(calls(&sim, "cudaHostAlloc"), 1);
    sim.clear_trace();
    let zeros = pool.zeroed::<u32>(1000).unwrap();
    assert_eq!(*zeros.host().unwrap(), [0; 1000], "not the former owner's");
    assert!(sim.trace().is_empty(), "{:?}", sim.trace());
    stream.copy(&zeros, &mut on_device).unwrap();
    drop((zeros, pool, on_device));
    no_memory_left(&sim, device.runtime());
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
        let host = buffer.host().unwrap();
        assert!(host.iter().all(|value| value == expected));
    }
}

#[test]
fn kernels_get_the_blocks_own_address() {
    let (_sim, device, _) = device();
    let pool = pool(&device);
    let buffers: Vec<PinnedBuffer<u32>> = (0..3).map(|_| pool.zeroed(100).unwrap()).collect();
    // The difference between the device address and the host address of a slab.
    let distance = |buffer: &PinnedBuffer<u32>| {
        buffer.device_ptr().unwrap().addr() as isize - buffer.as_ptr().addr() as isize
    };
    assert!(device.capabilities().map_host_memory);
    assert_eq!(distance(&buffers[0]), distance(&buffers[1]));
    assert_eq!(distance(&buffers[0]), distance(&buffers[2]));
    assert_ne!(buffers[0].device_ptr(), buffers[1].device_ptr());
    assert!(buffers.iter().all(|one| one.as_ptr().addr() % 256 == 0));
}

#[test]
fn the_host_writes_after_the_former_owners_copy() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let pool = pool(&device);
        let mut target = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        let address = leave_in_use(&pool, &[4; 100], &mut target, &stream);
        sim.clear_trace();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| pool.from_slice(&[9u32; 100]).unwrap());
            // It waits for the end of the copy, which is paused for an arbitrary time.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!next.is_finished(), "the copy has not read the memory");
            drop(paused);
            let next = next.join().unwrap();
            assert_eq!(next.as_ptr(), address);
            assert_eq!(*next.host().unwrap(), [9; 100]);
        });
        let mut found = [0; 100];
        target.copy_to_host(&mut found).unwrap();
        assert_eq!(found, [4; 100]);
        drop((pool, target));
        no_memory_left(&sim, device.runtime());
    }
}

#[test]
fn nobody_waits_where_other_memory_is_free() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut target = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let spare = pool.zeroed::<u32>(100).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    leave_in_use(&pool, &[4; 100], &mut target, &stream);
    drop(spare); // the next block to be reused
    let next = pool.from_slice(&[5u32; 100]).unwrap();
    assert_eq!(*next.try_host().unwrap(), [5; 100]);
    drop((next, paused, pool, target));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn the_limit_holds_and_names_itself() {
    let (_sim, device, _) = device();
    let options = PoolOptions::default()
        .slab_bytes(8 * MIB)
        .limit_bytes(12 * MIB);
    let pool = PinnedPool::new(&device, options).unwrap();
    let kept: Vec<_> = (0..3)
        .map(|_| pool.zeroed::<u8>(4 * MIB).unwrap())
        .collect();
    assert_eq!(pool.stats().reserved_bytes, 12 * MIB, "a smaller slab");
    let error = pool.zeroed::<u8>(1).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("PoolOptions::limit_bytes") && text.contains("pinned memory"),
        "{text}"
    );
    assert!(
        matches!(error, Error::OutOfMemory { call: "cudaHostAlloc", requested_bytes, free_bytes: 0, total_bytes, .. }
            if requested_bytes == 2 * MIB && total_bytes == 12 * MIB),
        "{error}"
    );
    drop(kept);
    assert_eq!(*pool.from_slice(&[3u8; 9]).unwrap().host().unwrap(), [3; 9]);
}

#[test]
fn out_of_memory_trims_and_tries_again() {
    let (sim, device, _) = simulated(Gpu::H200);
    let pool = pool(&device);
    drop(pool.zeroed::<u8>(20 * MIB).unwrap());
    let refused = Fail::call("cudaHostAlloc").with(cudaError::cudaErrorMemoryAllocation);
    sim.fail(refused.clone());
    let small = pool.from_slice(&[1u8; 100]).unwrap();
    assert_eq!(calls(&sim, "cudaFreeHost"), 1, "the 20 MiB made room");
    assert_eq!(
        pool.stats().reserved_bytes,
        2 * MIB,
        "the second attempt takes no more than it must"
    );
    sim.fail(refused.from_then_on());
    let error = pool.zeroed::<u8>(4 * MIB).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { call: "cudaHostAlloc", requested_bytes, .. } if requested_bytes == 4 * MIB),
        "{error}"
    );
    sim.clear_failures();
    assert_eq!(*small.host().unwrap(), [1; 100]);
    drop((small, pool));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn trim_never_frees_under_work() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = pool(&device);
    let mut target = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    leave_in_use(&pool, &[4; 100], &mut target, &stream);
    assert_eq!(pool.trim(), 8 * MIB);
    assert_eq!(calls(&sim, "cudaFreeHost"), 0);
    assert_eq!((pool.stats().slabs, pool.trim()), (0, 0));
    drop(paused);
    device.runtime().reclaim().unwrap();
    assert_eq!(calls(&sim, "cudaFreeHost"), 1);
    let mut found = [0; 100];
    target.copy_to_host(&mut found).unwrap();
    assert_eq!(found, [4; 100]);
    drop((pool, target));
    no_memory_left(&sim, device.runtime());
}

#[test]
fn a_pool_goes_with_its_last_buffer() {
    let (sim, device, _) = simulated(Gpu::H200);
    let pool = pool(&device);
    let (buffer, closed) = (
        pool.clone().from_slice(&[1u32; 100]).unwrap(),
        pool.zeroed::<u32>(100).unwrap(),
    );
    drop(pool);
    closed.close().unwrap();
    assert_eq!(calls(&sim, "cudaFreeHost"), 0);
    assert_eq!(*buffer.host().unwrap(), [1; 100]);
    drop(buffer);
    no_memory_left(&sim, device.runtime());
}

#[test]
fn the_numbers_add_up() {
    let (_sim, device, _) = device();
    let pool = pool(&device);
    assert_eq!(pool.stats(), Default::default());
    assert!(pool.zeroed::<u64>(0).unwrap().is_empty());
    let (a, b) = (
        pool.zeroed::<u8>(100).unwrap(),
        pool.zeroed::<u8>(5 * MIB).unwrap(),
    );
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.slabs), (2, 2));
    assert_eq!(stats.live_bytes, 256 + 6 * MIB);
    assert_eq!(stats.reserved_bytes, 14 * MIB);
    drop((a, b));
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
    assert_eq!(stats.peak_bytes, 256 + 6 * MIB);
    assert_eq!(pool.trim(), 14 * MIB);
    assert!(format!("{pool:?}").contains("pinned memory"));
    let bad = PinnedPool::new(&device, PoolOptions::default().slab_bytes(KIB));
    assert!(matches!(bad, Err(Error::InvalidArgument { .. })));
    let error = pool.zeroed::<u64>(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn threads_stage_copies() {
    let (_sim, device, _) = device();
    let options = PoolOptions::default()
        .slab_bytes(4 * MIB)
        .limit_bytes(64 * MIB);
    let pool = PinnedPool::new(&device, options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (pool, device) = (&pool, &device);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let mut target = DeviceBuffer::<u32>::zeroed(device, 5000).unwrap();
                for round in 0..60u32 {
                    let value = thread * 1000 + round;
                    let source = pool.from_slice(&[value; 5000]).unwrap();
                    stream.copy(&source, &mut target).unwrap();
                    drop(source); // the copy may still run
                    let mut back = pool.zeroed::<u32>(5000).unwrap();
                    stream.copy(&target, &mut back).unwrap();
                    let host = back.host().unwrap();
                    assert!(host.iter().all(|found| *found == value));
                    if round % 16 == 0 {
                        pool.trim();
                    }
                }
            });
        }
    });
    assert_eq!((pool.stats().live_buffers, pool.stats().live_bytes), (0, 0));
    device.synchronize().unwrap();
    pool.trim();
    assert_eq!(pool.stats().slabs, 0);
}
