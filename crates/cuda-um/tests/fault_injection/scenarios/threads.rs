//! Threads that share pools: one of them gets the error, and the others continue.

use super::{COUNT, pools::options};
use crate::world::{Post, World};
use cuda_um::{DeviceBuffer, MemoryKind, PinnedBuffer, Pool, Result, UnifiedBuffer};

const THREADS: usize = 3;

/// Runs `work` on several threads; the devices of the machine are assigned in turn. Every thread ends independently.
fn on_threads(world: &World, work: impl Fn(usize, &Post) -> Result<()> + Sync) -> Result<()> {
    let work = &work;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let post = &world.posts[thread % world.posts.len()];
                scope.spawn(move || work(thread, post))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    world.all_of(outcomes)
}

/// Each thread takes and returns memory of the same pools, which other streams may still use.
pub fn pools_are_shared(world: &World) -> Result<()> {
    let device = &world.here().device;
    let on_device = super::pools::on_device(device)?;
    let pinned = Pool::new(device, MemoryKind::Pinned, options())?;
    let managed = Pool::new(device, MemoryKind::Managed, options())?;
    on_threads(world, |thread, post| {
        // A stream of the pools' device: another device cannot access memory of a driver pool, except by a copy between
        // devices.
        let stream = device.create_stream()?;
        let mut mine = DeviceBuffer::<u32>::zeroed(&post.device, COUNT)?;
        for round in 0..2u32 {
            let value = 10 * thread as u32 + round;
            let source = PinnedBuffer::from_slice_in(&pinned, &[value; COUNT])?;
            let mut scratch = DeviceBuffer::<u32>::zeroed_in(&*on_device, COUNT)?;
            stream.copy(&source, &mut scratch)?;
            // Returned to its pool while it is still being read.
            drop(source);
            if world.migrates() {
                let mut copy = UnifiedBuffer::<u32>::zeroed_in(&managed, COUNT)?;
                world.here().stream.copy(&scratch, &mut copy)?;
                assert_eq!(copy.host()?[..], [value; COUNT]);
            }
            let mut back = PinnedBuffer::<u32>::zeroed_in(&pinned, COUNT)?;
            stream.copy(&scratch, &mut back)?;
            post.stream.copy(&scratch, &mut mine)?;
            drop(scratch);
            assert_eq!(back.host()?[..], [value; COUNT]);
            assert_eq!(mine.to_vec()?, [value; COUNT]);
        }
        Ok(())
    })?;
    managed.trim();
    pinned.trim();
    Ok(())
}
