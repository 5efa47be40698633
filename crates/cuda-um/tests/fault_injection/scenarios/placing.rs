//! The location of managed memory: queries, advice and prefetches.

use super::{COUNT, pools::options};
use crate::world::World;
use cuda_um::{
    AccessPattern, Advice, Location, MemoryKind, Pool, Result, UnifiedBuffer, UnifiedOptions,
    managed::PrefetchBatch,
};

pub fn batch_prefetch(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let pool = Pool::new(device, MemoryKind::Managed, options())?;
    let own = [3u32, 4].map(|value| UnifiedBuffer::from_slice(device, &[value; COUNT]));
    let [first, second] = own;
    let (first, second) = (first?, second?);
    let pooled = UnifiedBuffer::from_slice_in(&pool, &[5u32; COUNT])?;
    let mut batch = PrefetchBatch::new();
    batch.add(&first).add(&second).add(&pooled);
    batch.prefetch_on(Location::Host, stream)?;
    batch.prefetch_on(device, stream)?;
    for (buffer, value) in [(&first, 3), (&second, 4), (&pooled, 5)] {
        assert_eq!(buffer.host()?[..], [value; COUNT]);
    }
    Ok(())
}

pub fn advice_and_residency(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let options = UnifiedOptions::default().pattern(AccessPattern::DeviceResident);
    let data = UnifiedBuffer::<u32>::zeroed_with(device, 1 << 20, options)?;
    data.advise(Advice::SetReadMostly)?;
    data.view(1 << 19..)?.prefetch_on(Location::Host, stream)?;
    data.residency()?;
    let attributes = data.range_attributes()?;
    assert!(attributes.read_mostly && attributes.preferred_location.is_some());
    data.advise(Advice::UnsetReadMostly)?;
    data.prefetch_on(device, stream)?;
    assert_eq!(data.host()?[5], 0);
    Ok(())
}
