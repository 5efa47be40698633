//! Plain slices of cudarc: in managed memory, as buffers, and as targets of staged copies.

use crate::support::{LEN, any_world, delay, scale, world};
use cuda_um::buffer::ReadAt;
use cuda_um::resource::DriverPool;
use cuda_um::{DeviceBuffer, ErrorKind, Location, MemoryKind, PoolOptions, UnifiedBuffer};
use cudarc::driver::PushKernelArg;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use um_cudarc::Error;

/// A managed pool; none before CUDA 13.0, with a typed reason.
fn pool(world: &crate::support::World) -> Option<DriverPool> {
    match DriverPool::new(
        world.shared().device(),
        MemoryKind::Managed,
        PoolOptions::default(),
    ) {
        Ok(pool) => Some(pool),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            None
        }
    }
}

#[test]
fn cudarc_owns_and_frees_managed_memory() {
    let Some(world) = world() else { return };
    let (Some(pool), stream) = (pool(&world), world.stream()) else {
        return;
    };
    let theirs = stream.theirs();
    for round in 0..100 {
        let buffer = UnifiedBuffer::<f32>::zeroed_in(&pool, LEN).unwrap();
        let mut slice = stream.give(buffer).map_err(|(_, error)| error).unwrap();
        world
            .shared()
            .host_mut(&mut slice)
            .unwrap()
            .fill(round as f32);
        let mut clone = slice.clone();
        scale!(theirs, world.scale(), &slice, &mut clone, 2.0);
        drop(slice);
        // The clone is ordinary device memory.
        assert_eq!(
            theirs.clone_dtoh(&clone).unwrap()[LEN - 1],
            round as f32 * 2.0
        );
    }
    let buffer = UnifiedBuffer::<f32>::zeroed_in(&pool, LEN).unwrap();
    let mut slice = stream.give(buffer).map_err(|(_, error)| error).unwrap();
    let host = world.shared().with_mut(&mut slice, |mut view| {
        view.fill_on(3.0, stream.ours())?;
        view.as_view().prefetch_on(Location::Host, stream.ours())?;
        Ok(view.host()?[7])
    });
    assert_eq!(host.unwrap(), 3.0);
    delay(theirs);
    theirs.memcpy_htod(&[4.0; LEN], &mut slice).unwrap();
    assert_eq!(world.shared().host(&slice).unwrap()[..], [4.0; LEN]);
    drop(slice);
    world.context().synchronize().unwrap();
    assert_eq!(pool.stats().live_bytes, 0);
}

#[test]
fn a_slice_of_cudarc_becomes_a_buffer() {
    let Some(world) = world() else { return };
    let streams = [
        world.context().new_stream().unwrap(),
        world.context().new_stream().unwrap(),
    ];
    let home = world.shared().adopt(&streams[0]).unwrap();
    let a = world.slice(&home, 1.0);
    let mut slice = streams[0].alloc_zeros::<f32>(LEN).unwrap();
    delay(&streams[1]);
    scale!(streams[1], world.scale(), &a, &mut slice, 5.0);
    let mut buffer = world.shared().take_device(slice).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [5.0; LEN]);
    buffer
        .fill_on(6.0, &world.shared().device().create_stream().unwrap())
        .unwrap();
    drop(buffer);

    // SAFETY: written before it is read.
    let managed = unsafe { world.context().alloc_unified::<f32>(LEN, true) }.unwrap();
    drop(managed);
    let Some(pool) = pool(&world) else { return };
    let managed = UnifiedBuffer::from_slice_in(&pool, &[2.0_f32; LEN]).unwrap();
    let slice = home.give(managed).map_err(|(_, error)| error).unwrap();
    let mut buffer = world.shared().take_unified(slice).unwrap();
    buffer.host_mut().unwrap()[1] = 3.0;
    assert_eq!(buffer.host().unwrap()[..3], [2.0, 3.0, 2.0]);
    // The pool ends after the free has run.
    drop(buffer);
    world.context().synchronize().unwrap();
}

/// A file in memory.
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut from = &self.0[self.0.len().min(offset as usize)..];
        io::Read::read(&mut from, into)
    }
}

#[test]
fn a_file_is_read_to_any_memory_of_cudarc() {
    let Some(world) = world() else { return };
    let streams = [(); 2].map(|()| world.context().new_stream().unwrap());
    let home = world.shared().adopt(&streams[0]).unwrap();
    let numbers: Vec<u32> = (0..3_000_000).collect();
    let mut file = Bytes(vec![0xff; 5]);
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    file.0.extend(bytes);
    let mut slice = streams[1].alloc_zeros::<u32>(numbers.len()).unwrap();
    delay(&streams[1]);
    home.read_file(&file, 5, &mut slice).unwrap();
    assert_eq!(streams[1].clone_dtoh(&slice).unwrap(), numbers);
    let mut part = slice.slice_mut(7..1007);
    home.read_file(&file, 5, &mut part).unwrap();
    assert_eq!(streams[1].clone_dtoh(&part).unwrap(), numbers[..1000]);
    let mut unified = world.slice(&home, 1.0);
    home.read_file(&file, 9, &mut unified).unwrap();
    let found = streams[1].clone_dtoh(&unified).unwrap();
    assert!(
        found
            .iter()
            .zip(1..)
            .all(|(found, number)| found.to_bits() == number)
    );
    let error = home.read_file(&file, 6, &mut slice).unwrap_err();
    assert!(
        matches!(&error, Error::Um(cuda_um::Error::Io { .. })),
        "{error}"
    );
}

/// Its pieces before 12 MiB can be read.
struct Broken;

impl ReadAt for Broken {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        assert!(offset < 12 << 20, "the storage is gone");
        into.fill(7);
        Ok(into.len())
    }
}

#[test]
fn work_of_cudarc_comes_after_the_pieces_of_a_file_that_panics() {
    let world = any_world();
    let theirs = world.context().new_stream().unwrap();
    let home = world.shared().adopt(&theirs).unwrap();
    let mut busy = DeviceBuffer::<u8>::zeroed(world.shared().device(), 64 << 20).unwrap();
    for _ in 0..4 {
        let mut slice = theirs.alloc_zeros::<u8>(24 << 20).unwrap();
        // The pieces wait behind this work.
        for value in 0..30 {
            busy.fill(value).unwrap();
        }
        let read = AssertUnwindSafe(|| home.read_file(&Broken, 0, &mut slice));
        assert!(catch_unwind(read).is_err());
        // cudarc frees the slice in the order of its stream.
        drop(slice);
        let other = theirs.alloc_zeros::<u8>(24 << 20).unwrap();
        theirs.synchronize().unwrap();
        assert!(
            theirs
                .clone_dtoh(&other)
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
        world.shared().device().synchronize().unwrap();
        assert!(
            theirs
                .clone_dtoh(&other)
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
    }
}

#[test]
fn pageable_memory_is_staged_to_any_memory_of_cudarc() {
    let Some(world) = world() else { return };
    let streams = [
        world.context().new_stream().unwrap(),
        world.context().new_stream().unwrap(),
    ];
    let home = world.shared().adopt(&streams[0]).unwrap();
    for len in [1, 1000, 3_000_000] {
        let source: Vec<u32> = (0..len).collect();
        let mut slice = streams[1].alloc_zeros::<u32>(source.len() + 1).unwrap();
        delay(&streams[1]);
        home.memcpy_htod_staged(&source, &mut slice).unwrap();
        let copied = streams[1].clone_dtoh(&slice).unwrap();
        assert_eq!(
            (&copied[..source.len()], copied[source.len()]),
            (&source[..], 0)
        );
        let mut part = slice.slice_mut(1..);
        home.memcpy_htod_staged(&source, &mut part).unwrap();
        assert_eq!(streams[1].clone_dtoh(&part).unwrap(), source);
    }
    let mut unified = world.slice(&home, 1.0);
    home.memcpy_htod_staged(&[7.0; LEN], &mut unified).unwrap();
    home.memcpy_htod_staged(&[], &mut unified).unwrap();
    assert_eq!(streams[1].clone_dtoh(&unified).unwrap(), [7.0; LEN]);
    assert_eq!(unified.host().unwrap()[..], [7.0; LEN]);
}
