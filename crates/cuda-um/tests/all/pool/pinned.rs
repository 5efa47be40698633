//! Pools of pinned memory: addresses for kernels, and waits of the host.

use crate::pool::any::AnyPool;
use crate::pool::{Pinned, Setup, on_each, on_each_with, small_slabs};
use cuda_um::{DeviceBuffer, MemoryKind, PinnedBuffer, Pool};
use cuda_um_sim::Gpu;
use cuda_um_testkit::device;
use std::time::Duration;

/// A dropped buffer that a paused stream still copies from; this block is reused next.
fn leave_in_use(it: &Setup, pool: &AnyPool, to: &mut DeviceBuffer<u32>) -> usize {
    let source = pool.copy_of(&[4; 100]).unwrap();
    source.copy_to(to, &it.stream);
    source.address()
}

#[test]
fn kernels_get_the_blocks_own_address() {
    let (_sim, device, _) = device();
    let pool = Pool::new(&device, MemoryKind::Pinned, small_slabs()).unwrap();
    let buffers: Vec<PinnedBuffer<u32>> = (0..3)
        .map(|_| PinnedBuffer::zeroed_in(&pool, 100).unwrap())
        .collect();
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
        on_each_with(
            &[Pinned],
            |builder| builder.gpu(gpu),
            |it| {
                let pool = it.pool();
                let mut target = DeviceBuffer::zeroed(&it.device, 100).unwrap();
                it.device.synchronize().unwrap();
                let paused = it.sim().pause();
                let address = leave_in_use(it, &pool, &mut target);
                std::thread::scope(|scope| {
                    let next = scope.spawn(|| pool.copy_of(&[9; 100]).unwrap());
                    // It waits for the end of the copy, which is paused for an arbitrary time.
                    std::thread::sleep(Duration::from_millis(20));
                    assert!(!next.is_finished(), "the copy has not read the memory");
                    drop(paused);
                    let next = next.join().unwrap();
                    assert_eq!((next.address(), next.contents()), (address, vec![9; 100]));
                });
                assert_eq!(target.to_vec().unwrap(), [4; 100]);
            },
        );
    }
}

#[test]
fn nobody_waits_where_other_memory_is_free() {
    on_each(&[Pinned], |it| {
        let pool = it.pool();
        let mut target = DeviceBuffer::zeroed(&it.device, 100).unwrap();
        let spare = pool.zeroed(100).unwrap();
        it.device.synchronize().unwrap();
        let _paused = it.sim().pause();
        leave_in_use(it, &pool, &mut target);
        drop(spare); // the next block to be reused
        let next = pool.copy_of(&[5; 100]).unwrap();
        assert_eq!(next.contents(), [5; 100]);
    });
}
