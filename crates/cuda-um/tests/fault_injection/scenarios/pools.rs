//! Pools: memory changes its owner.

use super::{COUNT, LARGE};
use crate::world::World;
use cuda_um::{
    Advice, DeviceBuffer, DevicePool, PinnedBuffer, PinnedPool, PoolOptions, Result, UnifiedBuffer,
    UnifiedPool,
};

pub fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(2 << 20)
}

pub fn default_pools(world: &World) -> Result<()> {
    let (device, stream) = (&world.here().device, &world.here().stream);
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
    let (device, stream) = (&world.here().device, &world.here().stream);
    let pool = UnifiedPool::new(device, options())?;
    for round in 0..3u32 {
        let mut small = pool.from_slice(&[round; COUNT])?;
        let mut large = pool.zeroed::<u32>(LARGE)?;
        if world.migrates() {
            small.advise(Advice::SetReadMostly)?;
        }
        world
            .here()
            .add
            .launch(stream, COUNT, (&mut large, COUNT as u32, round + 1))?;
        world
            .here()
            .add
            .launch(stream, COUNT, (&mut small, COUNT as u32, 1u32))?;
        drop(large);
        assert_eq!(small.host()?[..], [round + 1; COUNT]);
    }
    pool.trim();
    Ok(())
}

pub fn pinned_pool(world: &World) -> Result<()> {
    let (device, stream) = (&world.here().device, &world.here().stream);
    let pool = PinnedPool::new(device, options())?;
    let mut memory = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    for round in 0..3u32 {
        let staged = pool.from_slice(&[round; COUNT])?;
        stream.copy(&staged, &mut memory)?;
    }
    let mut back = pool.zeroed::<u32>(COUNT)?;
    stream.copy(&memory, &mut back)?;
    assert_eq!(back.host()?[..], [2; COUNT]);
    back.close()?;
    drop(pool.zeroed::<u8>(3 << 20)?);
    Ok(())
}

pub fn device_pool(world: &World) -> Result<()> {
    let (device, stream) = (&world.here().device, &world.here().stream);
    let pool = DevicePool::new(device, options())?;
    let mut last = Vec::new();
    for round in 0..3u32 {
        let mut scratch = pool.zeroed::<u32>(COUNT)?;
        let mut more = pool.from_slice(&[round; COUNT])?;
        world
            .here()
            .add
            .launch(stream, COUNT, (&mut scratch, COUNT as u32, round))?;
        stream.copy(&scratch, &mut more)?;
        last = more.to_vec()?;
    }
    assert_eq!(last, [2; COUNT]);
    pool.zeroed::<u32>(COUNT)?.close()?;
    pool.trim();
    pool.stats();
    Ok(())
}
