//! Options that no pool can have, and limits.

use crate::bad_input::world::{cases, run};
use cuda_um::{
    DeviceBuffer, MemoryKind, PinnedBuffer, Pool, PoolOptions, UnifiedBuffer,
    resource::{DeviceArena, DeviceMemory, ManagedMemory, PinnedMemory},
};

const MIB: usize = 1 << 20;

fn slabs(bytes: usize) -> PoolOptions {
    PoolOptions::default().slab_bytes(bytes)
}

fn limit(bytes: usize) -> PoolOptions {
    PoolOptions::default().limit_bytes(bytes)
}

#[test]
fn options_places_and_resources_that_do_not_fit() {
    run(cases! {
        "Pool::new", "Unified: slabs of 0 bytes": |w| Pool::new(&w.device, MemoryKind::Managed, slabs(0))
            => InvalidArgument, ["pool's slabs cannot be 0 bytes", "multiple of 2 MiB"];
        "Pool::new", "Unified: slabs of 3 MiB": |w| Pool::new(&w.device, MemoryKind::Managed, slabs(3 * MIB))
            => InvalidArgument, ["cannot be 3145728 bytes", "multiple of 2 MiB"];
        "Pool::new", "Unified: slabs beyond isize::MAX": |w| Pool::new(&w.device, MemoryKind::Managed, slabs(1 << 63))
            => InvalidArgument, ["cannot be 9223372036854775808 bytes", "9223372036854775807"];
        "Pool::new", "Device: slabs of usize::MAX": |w| Pool::new(&w.device, MemoryKind::Device, slabs(usize::MAX))
            => InvalidArgument, ["cannot be 18446744073709551615 bytes"];
        "UnifiedBuffer::zeroed_in", "a limit of 0": |w| UnifiedBuffer::<u8>::zeroed_in(&Pool::new(&w.device, MemoryKind::Managed, limit(0))?, 1)
            => OutOfMemory, ["the pool's limit of 0 bytes (PoolOptions::limit_bytes) leaves 0"];
        "PinnedBuffer::zeroed_in", "a limit of 0": |w| PinnedBuffer::<u8>::zeroed_in(&Pool::new(&w.device, MemoryKind::Pinned, limit(0))?, 1)
            => OutOfMemory, ["the pool's limit of 0 bytes"];
        "PinnedBuffer::from_slice_in", "more than the limit": |w| PinnedBuffer::from_slice_in(&Pool::new(&w.device, MemoryKind::Pinned, limit(2 * MIB))?, &vec![1u8; 3 * MIB])
            => OutOfMemory, ["the pool's limit of 2097152 bytes", "leaves 2097152", "4194304 bytes requested"];
        "DeviceBuffer::zeroed_in", "more than the limit": |w| DeviceBuffer::<u8>::zeroed_in(&Pool::new(&w.device, MemoryKind::Device, limit(2 * MIB))?, 2 * MIB + 1)
            => OutOfMemory, ["the pool's limit of 2097152 bytes", "leaves 2097152", "4194304 bytes requested"];
        "DeviceArena::new", "0 bytes": |w| DeviceArena::new(&w.device, 0)
            => InvalidArgument, ["the size of an arena cannot be 0 bytes", "multiple of 2097152 bytes"];
        "DeviceArena::new", "more than the device has": |w| DeviceArena::new(&w.device, 1 << 44)
            => OutOfMemory, ["17592186044416 bytes requested"];
        "DeviceArena::place", "beyond the end": |w| w.arena.place::<u8>(1, 3 * MIB)
            => InvalidArgument, ["slots 1..3", "the arena has 2 slots"];
        "DeviceArena::place", "the last slot there could be": |w| w.arena.place::<u8>(usize::MAX, 1)
            => InvalidArgument, ["slots 18446744073709551615..18446744073709551615", "the arena has 2 slots"];
        "DeviceArena::place", "more than can be addressed": |w| w.arena.place::<u64>(0, usize::MAX)
            => InvalidArgument, ["18446744073709551615 elements of 8 bytes"];
        "UnifiedBuffer::zeroed_in", "device memory": |w| UnifiedBuffer::<u8>::zeroed_in(&DeviceMemory::new(&w.device), 1)
            => InvalidArgument, ["the memory resource", "device memory", "a UnifiedBuffer needs managed memory"];
        "UnifiedBuffer::uninit_in", "more than can be addressed": |w| UnifiedBuffer::<u64>::uninit_in(&ManagedMemory::new(&w.device), usize::MAX)
            => InvalidArgument, ["18446744073709551615 elements of 8 bytes"];
        "DeviceBuffer::zeroed_in", "managed memory": |w| DeviceBuffer::<u8>::zeroed_in(&ManagedMemory::new(&w.device), 1)
            => InvalidArgument, ["managed memory", "a DeviceBuffer needs device memory"];
        "DeviceBuffer::uninit_in", "pinned memory": |w| DeviceBuffer::<u8>::uninit_in(&PinnedMemory::new(&w.device), 1)
            => InvalidArgument, ["pinned memory", "a DeviceBuffer needs device memory"];
        "PinnedBuffer::zeroed_in", "managed memory": |w| PinnedBuffer::<u8>::zeroed_in(&w.unified_pool, 1)
            => InvalidArgument, ["managed memory", "a PinnedBuffer needs pinned memory"];
        "PinnedBuffer::from_slice_in", "device memory": |w| PinnedBuffer::from_slice_in(&w.device_pool, &[1u8])
            => InvalidArgument, ["device memory", "a PinnedBuffer needs pinned memory"];
        "Device::set_pool_options", "slabs of 1 byte": |w| w.device.set_pool_options(MemoryKind::Pinned, slabs(1))
            => InvalidArgument, ["the size of a pool's slabs cannot be 1 bytes", "multiple of 2 MiB"];
        "Device::set_pool_options", "a pool in use": |w| {
            w.device.pool(MemoryKind::Managed)?;
            w.device.set_pool_options(MemoryKind::Managed, None)
        } => InvalidArgument, ["the options of a default pool cannot be None", "before the first use of managed memory on device 0"];
    });
}

/// A slab of half the address space cannot be had; the pool takes what is needed instead.
#[test]
fn huge_slabs_that_no_device_has() {
    let world = crate::bad_input::world::World::new();
    let pool = Pool::new(&world.device, MemoryKind::Managed, slabs(1 << 62)).unwrap();
    let buffer = UnifiedBuffer::from_slice_in(&pool, &[3u8; 5000]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3; 5000]);
    assert!(pool.stats().reserved_bytes <= 2 * MIB, "{:?}", pool.stats());
}
