//! Pools: memory changes its owner.

use super::{COUNT, LARGE};
use crate::world::World;
use cuda_um::{
    Advice, Device, DeviceBuffer, MemoryKind, PinnedBuffer, Pool, PoolOptions, Result,
    UnifiedBuffer,
    resource::{DriverPool, MemoryResource},
};

pub fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(2 << 20)
}

pub fn default_pools(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    for round in 0..2u32 {
        let mut unified = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
        let pinned = PinnedBuffer::from_slice(device, &[round; COUNT])?;
        let mut memory = DeviceBuffer::<u32>::zeroed(device, LARGE)?;
        memory.fill_on(round, stream)?;
        stream.copy(&pinned, &mut unified)?;
        drop(memory);
        assert_eq!(unified.host()?[..], [round; COUNT]);
        drop(unified);
        device.trim();
    }
    Ok(())
}

pub fn unified_pool(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let pool = Pool::new(device, MemoryKind::Managed, options())?;
    for round in 0..3u32 {
        let mut small = UnifiedBuffer::from_slice_in(&pool, &[round; COUNT])?;
        let mut large = UnifiedBuffer::<u32>::zeroed_in(&pool, LARGE)?;
        if world.migrates() {
            small.advise(Advice::SetReadMostly)?;
        }
        add.launch(stream, COUNT, (&mut large, COUNT as u32, round + 1))?;
        add.try_run(stream, &mut small, COUNT, 1)?;
        drop(large);
        assert_eq!(small.host()?[..], [round + 1; COUNT]);
    }
    pool.trim();
    Ok(())
}

pub fn pinned_pool(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let pool = Pool::new(device, MemoryKind::Pinned, options())?;
    let mut memory = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    for round in 0..3u32 {
        let staged = PinnedBuffer::from_slice_in(&pool, &[round; COUNT])?;
        stream.copy(&staged, &mut memory)?;
    }
    let mut back = PinnedBuffer::<u32>::zeroed_in(&pool, COUNT)?;
    stream.copy(&memory, &mut back)?;
    assert_eq!(back.host()?[..], [2; COUNT]);
    back.close()?;
    drop(PinnedBuffer::<u8>::zeroed_in(&pool, 3 << 20)?);
    Ok(())
}

/// A pool of device memory: the driver's, if the device has such pools.
pub fn on_device(device: &Device) -> Result<Box<dyn MemoryResource>> {
    Ok(match device.capabilities().memory_pools {
        true => Box::new(DriverPool::new(device, MemoryKind::Device, options())?),
        false => Box::new(Pool::new(device, MemoryKind::Device, options())?),
    })
}

pub fn device_pool(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let pool = on_device(device)?;
    let mut last = Vec::new();
    for round in 0..3u32 {
        let mut scratch = DeviceBuffer::<u32>::zeroed_in(&*pool, COUNT)?;
        let mut more = DeviceBuffer::from_slice_in(&*pool, &[round; COUNT])?;
        add.try_run(stream, &mut scratch, COUNT, round)?;
        stream.copy(&scratch, &mut more)?;
        last = more.to_vec()?;
    }
    assert_eq!(last, [2; COUNT]);
    DeviceBuffer::<u32>::zeroed_in(&*pool, COUNT)?.close()?;
    if device.capabilities().memory_pools {
        let pool = DriverPool::new(device, MemoryKind::Device, options())?;
        pool.trim();
        pool.stats();
    }
    Ok(())
}
