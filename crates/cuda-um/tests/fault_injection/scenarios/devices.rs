//! Several devices: a failure of one device has no effect on the others.

use super::{
    COUNT,
    pools::{on_device, options},
};
use crate::world::{Post, World};
use cuda_um::{
    Advice, DeviceBuffer, Devices, Location, MemoryKind, PinnedBuffer, Placement, Pool, Result,
    UnifiedBuffer, UnifiedOptions,
};

/// A managed buffer is prefetched from device to device, and each device uses it in turn.
pub fn one_buffer_on_all_devices(world: &World) -> Result<()> {
    // Mapped memory belongs to one device.
    let managed = UnifiedOptions::default().placement(Placement::Managed);
    let mut data = UnifiedBuffer::from_slice_with(&world.posts[0].device, &[1u32; COUNT], managed)?;
    for (round, post) in world.posts.iter().chain(&world.posts).enumerate() {
        if world.migrates() {
            data.prefetch_on(&post.device, &post.stream)?;
            data.advise(Advice::SetAccessedBy(Location::from(&post.device)))?;
        }
        let rounds = round as u32;
        post.add.try_run(&post.stream, &mut data, COUNT, rounds)?;
    }
    let rounds = 2 * world.posts.len() as u32;
    assert_eq!(data.host()?[..], [1 + rounds * (rounds - 1) / 2; COUNT]);
    data.close()
}

/// Device memory is copied from one device to the next, on the streams of either.
pub fn copies_between_devices(world: &World) -> Result<()> {
    let [first, second, ..] = &world.posts[..] else {
        panic!("a machine of two devices");
    };
    let mut a = DeviceBuffer::from_slice(&first.device, &[7u32; COUNT])?;
    let mut b = DeviceBuffer::<u32>::zeroed(&second.device, COUNT)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(&second.device, COUNT)?;
    for _ in 0..2 {
        first.stream.copy(&a, &mut b)?;
        second.add.try_run(&second.stream, &mut b, COUNT, 1)?;
        second.stream.copy(&b, &mut a)?;
        first.add.try_run(&first.stream, &mut a, COUNT, 10)?;
    }
    first.stream.copy(&a, &mut pinned)?;
    assert_eq!(pinned.host()?[..], [29; COUNT]);
    assert_eq!(b.to_vec()?, [19; COUNT]);
    b.close()?;
    a.close()
}

/// A pool of each kind on every device; memory changes its owner while another device reads it.
pub fn pools_of_all_devices(world: &World) -> Result<()> {
    let pools = world.posts.iter().map(|Post { device, .. }| {
        let managed = Pool::new(device, MemoryKind::Managed, options())?;
        Ok((managed, on_device(device)?))
    });
    let pools: Vec<_> = pools.collect::<Result<_>>()?;
    for round in 0..2u32 {
        for (index, (managed, on_device)) in pools.iter().enumerate() {
            let next = (index + 1) % pools.len();
            let there = &world.posts[next];
            let source = UnifiedBuffer::from_slice_in(managed, &[round + 5; COUNT])?;
            let mut scratch = DeviceBuffer::<u32>::zeroed_in(&**on_device, COUNT)?;
            let mut far = DeviceBuffer::<u32>::zeroed_in(&*pools[next].1, COUNT)?;
            world.posts[index].stream.copy(&source, &mut scratch)?;
            there.stream.copy(&scratch, &mut far)?;
            // The other device may still read it; the next owner in the pool is ordered after that.
            drop(scratch);
            let mut again = DeviceBuffer::<u32>::zeroed_in(&**on_device, COUNT)?;
            there.stream.copy(&far, &mut again)?;
            assert_eq!(again.to_vec()?, [round + 5; COUNT]);
        }
    }
    for (managed, on_device) in &pools {
        managed.trim();
        on_device.device().trim();
    }
    Ok(())
}

/// Memory of one device is dropped while another device still has to read it.
pub fn dropped_while_another_device_reads(world: &World) -> Result<()> {
    let [first, second, ..] = &world.posts[..] else {
        panic!("a machine of two devices");
    };
    let pool = on_device(&first.device)?;
    let memory = DeviceBuffer::from_slice(&first.device, &[3u32; COUNT])?;
    let pooled = DeviceBuffer::from_slice_in(&*pool, &[4u32; COUNT])?;
    let managed = UnifiedBuffer::from_slice(&first.device, &[5u32; COUNT])?;
    let copy = || DeviceBuffer::<u32>::zeroed(&second.device, COUNT);
    let mut copies = [copy()?, copy()?, copy()?];
    let paused = world.sim.pause();
    second.stream.copy(&memory, &mut copies[0])?;
    second.stream.copy(&pooled, &mut copies[1])?;
    second.stream.copy(&managed, &mut copies[2])?;
    drop((memory, pooled, managed, pool));
    drop(paused);
    for (copy, value) in copies.iter().zip(3..) {
        assert_eq!(copy.to_vec()?, [value; COUNT]);
    }
    world.runtime.reclaim()
}

/// Every device has its own work. A failure on one device does not stop the others.
pub fn each_device_for_itself(world: &World) -> Result<()> {
    let outcomes = world.posts.iter().map(|post| {
        let Post {
            device,
            stream,
            add,
            ..
        } = post;
        let mut data = UnifiedBuffer::from_slice(device, &[1u32; COUNT])?;
        let mut copy = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
        add.try_run(stream, &mut data, COUNT, 4)?;
        let other = device.create_stream()?;
        other.copy(&data, &mut copy)?;
        add.try_run(stream, &mut copy, COUNT, 2)?;
        assert_eq!(copy.to_vec()?, [7; COUNT]);
        assert_eq!(data.host()?[..], [5; COUNT]);
        data.close()?;
        copy.close()
    });
    world.all_of(outcomes.collect::<Vec<_>>())
}

/// Peer access: kernels of each device in the memory of one.
pub fn peers(world: &World) -> Result<()> {
    let devices = Devices::all(&world.runtime)?;
    devices.enable_peer_access()?;
    let mut data = DeviceBuffer::from_slice(&devices[0], &[1u32; COUNT])?;
    for post in &world.posts {
        (post.add).try_run(&post.stream, &mut data, COUNT, 4)?;
    }
    assert_eq!(data.to_vec()?, [1 + 4 * world.posts.len() as u32; COUNT]);
    data.close()
}
