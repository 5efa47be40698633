//! Streams, memory and work of other libraries.
#![allow(unsafe_code, reason = "plays the other library")]

use super::COUNT;
use crate::world::World;
use cuda_um::{
    DeviceBuffer, ErrorKind, MemoryKind, PoolOptions, Result, UnifiedBuffer, resource::DriverPool,
};
use std::ptr::NonNull;
use std::sync::Arc;

pub fn adopted_streams(world: &World) -> Result<()> {
    let (device, ours, add) = world.parts();
    let theirs = device.create_stream()?;
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    // SAFETY: the owner keeps the stream.
    let adopted = unsafe { device.adopt_stream(theirs.as_raw(), theirs.clone()) }?;
    data.fill_on(1, &adopted)?;
    add.try_run(ours, &mut data, COUNT, 3)?;
    add.try_run(&adopted, &mut data, COUNT, 3)?;
    // Another thread waits for the work.
    let waited = std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| data.host().map(|host| host[COUNT - 1]));
        elsewhere.join().expect("no panic")
    });
    assert_eq!(waited?, 7);
    Ok(())
}

pub fn imported_memory(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let theirs = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    device.synchronize()?;
    let address = NonNull::new(theirs.as_ptr().cast_mut()).expect("an address");
    // Not `theirs`: an owner that is leaked after a failure would keep the simulator.
    // SAFETY: `theirs` is dropped later, and nothing else uses the memory.
    let mut ours = unsafe { DeviceBuffer::from_foreign(device, address, COUNT, ()) }?;
    ours.fill_on(4, stream)?;
    assert_eq!(ours.read_one(COUNT - 1)?, 4);
    ours.fill_on(5, stream)?;
    // In use.
    drop(ours);
    world.runtime.reclaim()
}

pub fn exports_and_foreign_work(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let theirs = device.create_stream()?;
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let mut of_theirs = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    // SAFETY: a kernel of this library stands for the other one's; it does not use the address.
    unsafe {
        stream.enqueue_foreign((&mut data,), |_| {
            add.try_run(stream, &mut of_theirs, COUNT, 3)
        })
    }??;
    assert_eq!(of_theirs.read_one(5)?, 3);
    let mut data = Arc::new(data);
    for has_fence in [true, false] {
        // SAFETY: no guard lives, and the other library does nothing.
        let exported = unsafe { data.export_mut(&theirs) }?;
        match has_fence {
            true => exported.returned_on(&theirs)?,
            false => drop(exported),
        }
        assert_eq!(data.host()?[0], if has_fence { 0 } else { 7 });
        Arc::get_mut(&mut data)
            .expect("no export lives")
            .fill_on(7, stream)?;
    }
    drop(data.export(&theirs)?);
    drop(data);
    world.runtime.reclaim()
}

pub fn managed_pool(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let pool = match DriverPool::new(device, MemoryKind::Managed, PoolOptions::default()) {
        Err(error) if error.kind() == ErrorKind::NotSupported && !world.migrates() => return Ok(()),
        pool => pool?,
    };
    let mut data = UnifiedBuffer::<u32>::zeroed_in(&pool, COUNT)?;
    add.try_run(stream, &mut data, COUNT, 3)?;
    assert_eq!(data.host()?[0], 3);
    drop(data);
    UnifiedBuffer::<u32>::zeroed_in(&pool, COUNT)?.close()
}
