//! Several devices: a failure of one device has no effect on the others.

use super::{
    COUNT,
    pools::{on_device, options},
};
use crate::world::{Post, World};
use cuda_um::collective::{Communicator, Reduce, group};
use cuda_um::{
    Advice, DeviceBuffer, Devices, Location, MemoryKind, PinnedBuffer, Placement, Pool,
    PrefetchBatch, Result, UnifiedBuffer, UnifiedOptions,
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
        post.add
            .launch(&post.stream, COUNT, (&mut data, COUNT as u32, rounds))?;
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
        second
            .add
            .launch(&second.stream, COUNT, (&mut b, COUNT as u32, 1u32))?;
        second.stream.copy(&b, &mut a)?;
        first
            .add
            .launch(&first.stream, COUNT, (&mut a, COUNT as u32, 10u32))?;
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

/// One batch of buffers of every device, to every device and back.
pub fn batch_over_devices(world: &World) -> Result<()> {
    let buffers = world.posts.iter().enumerate();
    let buffers = buffers
        .map(|(index, post)| UnifiedBuffer::from_slice(&post.device, &[index as u32 + 1; COUNT]));
    let buffers: Vec<_> = buffers.collect::<Result<_>>()?;
    let mut batch = PrefetchBatch::new();
    for buffer in &buffers {
        batch.add(buffer);
    }
    for post in &world.posts {
        batch.prefetch_on(&post.device, &post.stream)?;
    }
    batch.prefetch_on(Location::Host, &world.posts[0].stream)?;
    for (index, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.host()?[..], [index as u32 + 1; COUNT]);
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
        add.launch(stream, COUNT, (&mut data, COUNT as u32, 4u32))?;
        let other = device.create_stream()?;
        other.copy(&data, &mut copy)?;
        add.launch(stream, COUNT, (&mut copy, COUNT as u32, 2u32))?;
        assert_eq!(copy.to_vec()?, [7; COUNT]);
        assert_eq!(data.host()?[..], [5; COUNT]);
        data.close()?;
        copy.close()
    });
    world.all_of(outcomes.collect::<Vec<_>>())
}

/// A clique of all devices: reductions in managed memory, a gather in device memory, and the end of the ranks.
pub fn collectives(world: &World) -> Result<()> {
    let devices = world.posts.iter().map(|post| post.device.clone());
    let devices: Vec<_> = devices.collect();
    let ranks = Communicator::all(&devices)?;
    let all = COUNT * devices.len();
    let ones = |device| UnifiedBuffer::from_slice(device, &[1u32; COUNT]);
    let mut buffers: Vec<_> = devices.iter().map(ones).collect::<Result<_>>()?;
    let zeroed = |device| DeviceBuffer::<u32>::zeroed(device, all);
    let mut gathered: Vec<_> = devices.iter().map(zeroed).collect::<Result<_>>()?;
    let each = || ranks.iter().zip(&world.posts);
    for _ in 0..2 {
        group(each().zip(&mut buffers).map(|((rank, post), buffer)| {
            rank.all_reduce_in_place(buffer, Reduce::Sum)
                .on(&post.stream)
        }))?;
    }
    let both = buffers.iter().zip(&mut gathered);
    group(
        each().zip(both).map(|((rank, post), (source, target))| {
            rank.all_gather(source, target).on(&post.stream)
        }),
    )?;
    let sum = (devices.len() * devices.len()) as u32;
    for buffer in gathered {
        assert_eq!(buffer.to_vec()?, vec![sum; all]);
        buffer.close()?;
    }
    for (rank, buffer) in ranks.iter().zip(buffers) {
        rank.check()?;
        buffer.close()?;
    }
    world.all_of(ranks.into_iter().map(Communicator::close))
}

/// Peer access: a kernel in the memory of another device, a relayed copy, buffers that move from device to device and back.
pub fn peers(world: &World) -> Result<()> {
    let devices = Devices::all(&world.runtime)?;
    let access = devices.enable_peer_access()?;
    let more = devices.enable_peer_access()?;
    let [first, second, ..] = &world.posts[..] else {
        panic!("a machine of two devices");
    };
    let mut data = DeviceBuffer::from_slice(&first.device, &[1u32; COUNT])?;
    let mut managed = UnifiedBuffer::from_slice(&first.device, &[2u32; COUNT])?;
    (second.add).launch(&second.stream, COUNT, (&mut data, COUNT as u32, 4u32))?;
    for post in world.posts.iter().rev() {
        data.migrate(&post.device, &post.stream)?;
        managed.migrate(&post.device, &post.stream)?;
        (post.add).launch(&post.stream, COUNT, (&mut data, COUNT as u32, 1u32))?;
    }
    assert_eq!(data.to_vec()?, [5 + world.posts.len() as u32; COUNT]);
    managed.duplicate(&devices)?;
    assert_eq!(managed.host()?[..], [2; COUNT]);
    let large = vec![7u8; RELAYED];
    let pinned = PinnedBuffer::from_slice(&first.device, &large)?;
    let mut on_device = DeviceBuffer::<u8>::zeroed(&first.device, RELAYED)?;
    first.stream.copy(&pinned, &mut on_device)?;
    assert!(on_device.to_vec()? == large);
    drop(more);
    on_device.close()?;
    data.close()?;
    managed.close()?;
    access.close()
}

/// Managed memory moves through a copy, because the cost model says so.
pub fn through_copies(world: &World) -> Result<()> {
    let [first, second, ..] = &world.posts[..] else {
        panic!("a machine of two devices");
    };
    let mut model = (*second.device.cost_model()).clone();
    model.peer_prefetch_rate = 1e6;
    second.device.set_cost_model(model)?;
    let access = Devices::all(&world.runtime)?.enable_peer_access()?;
    let whole = vec![9u32; BLOCKS];
    let mut data = UnifiedBuffer::from_slice(&first.device, &whole)?;
    data.prefetch_on(&first.device, &first.stream)?;
    data.migrate(&second.device, &second.stream)?;
    assert!(data.host()?[..] == whole);
    data.close()?;
    drop(access);
    world.runtime.reclaim()
}

/// Bytes of a copy that a neighbour relays.
const RELAYED: usize = 6 << 20;
/// Elements with whole blocks of 2 MiB, whose location is tracked.
const BLOCKS: usize = 1 << 20;
