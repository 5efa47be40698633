//! Options that no pool can have, and limits.

use crate::world::{cases, run};
use cuda_um::{DevicePool, PinnedPool, PoolOptions, UnifiedPool};

const MIB: usize = 1 << 20;

fn slabs(bytes: usize) -> PoolOptions {
    PoolOptions::default().slab_bytes(bytes)
}

fn limit(bytes: usize) -> PoolOptions {
    PoolOptions::default().limit_bytes(bytes)
}

#[test]
fn slabs_that_cannot_be() {
    run(cases! {
        "UnifiedPool::new", "slabs of 0 bytes": |w| UnifiedPool::new(&w.device, slabs(0))
            => InvalidArgument, ["pool's slabs cannot be 0 bytes", "multiple of 2 MiB"];
        "UnifiedPool::new", "slabs of 3 MiB": |w| UnifiedPool::new(&w.device, slabs(3 * MIB))
            => InvalidArgument, ["cannot be 3145728 bytes", "multiple of 2 MiB"];
        "UnifiedPool::new", "slabs of usize::MAX": |w| UnifiedPool::new(&w.device, slabs(usize::MAX))
            => InvalidArgument, ["cannot be 18446744073709551615 bytes"];
        "UnifiedPool::new", "slabs beyond isize::MAX": |w| UnifiedPool::new(&w.device, slabs(1 << 63))
            => InvalidArgument, ["cannot be 9223372036854775808 bytes", "9223372036854775807"];
        "PinnedPool::new", "slabs of 1 byte": |w| PinnedPool::new(&w.device, slabs(1))
            => InvalidArgument, ["cannot be 1 bytes", "multiple of 2 MiB"];
        "DevicePool::new", "slabs of usize::MAX": |w| DevicePool::new(&w.device, slabs(usize::MAX))
            => InvalidArgument, ["cannot be 18446744073709551615 bytes"];
    });
}

#[test]
fn limits() {
    run(cases! {
        "UnifiedPool::zeroed", "a limit of 0": |w| UnifiedPool::new(&w.device, limit(0))?.zeroed::<u8>(1)
            => OutOfMemory, ["the pool's limit of 0 bytes (PoolOptions::limit_bytes) leaves 0"];
        "PinnedPool::zeroed", "a limit of 0": |w| PinnedPool::new(&w.device, limit(0))?.zeroed::<u8>(1)
            => OutOfMemory, ["the pool's limit of 0 bytes"];
        "PinnedPool::from_slice", "more than the limit": |w| PinnedPool::new(&w.device, limit(2 * MIB))?.from_slice(&vec![1u8; 3 * MIB])
            => OutOfMemory, ["the pool's limit of 2097152 bytes", "leaves 2097152", "4194304 bytes requested"];
        "DevicePool::zeroed", "more than the limit": |w| DevicePool::new(&w.device, limit(2 * MIB))?.zeroed::<u8>(2 * MIB + 1)
            => OutOfMemory, ["the pool's limit of 2097152 bytes", "leaves 2097152", "2097408 bytes requested"];
    });
}

/// A slab of half the address space cannot be had; the pool takes what is needed instead.
#[test]
fn huge_slabs_that_no_device_has() {
    let world = crate::world::World::new();
    let pool = UnifiedPool::new(&world.device, slabs(1 << 62)).unwrap();
    let buffer = pool.from_slice(&[3u8; 5000]).unwrap();
    assert_eq!(buffer.read_back().unwrap(), [3; 5000]);
    assert!(pool.stats().reserved_bytes <= 2 * MIB, "{:?}", pool.stats());
}
