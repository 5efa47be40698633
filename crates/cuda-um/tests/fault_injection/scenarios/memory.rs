//! Memory of every kind: written, read and freed.

use super::{COUNT, LARGE, MANY, copies::small_ring};
use crate::world::World;
use cuda_um::buffer::{FileRead, Runs};
use cuda_um::{
    Advice, DeviceBuffer, Location, Module, PinnedBuffer, Placement, RegisteredBuffer, Result,
    UnifiedBuffer, UnifiedOptions, resource::SystemMemory,
};
use cuda_um_testkit::{ADD_PTX, Add};
use std::fs::File;
use std::ops::ControlFlow;

pub fn main_job(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    for (i, value) in data.host_mut()?.iter_mut().enumerate() {
        *value = i as u32;
    }
    if world.migrates() {
        data.advise(Advice::SetPreferredLocation(Location::from(device)))?;
        data.prefetch_on(device, stream)?;
    }
    add.try_run(stream, &mut data, COUNT, 2)?;
    if world.migrates() {
        data.prefetch_on(Location::Host, stream)?;
    }
    let host = data.host()?;
    assert!(host.iter().enumerate().all(|(i, x)| *x == i as u32 + 2));
    drop(host);
    data.close()
}

pub fn device_memory(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let mut memory = DeviceBuffer::from_slice(device, &[5u32; COUNT])?;
    add.try_run(stream, &mut memory, COUNT, 1)?;
    let mut found = vec![0; COUNT];
    memory.copy_to_host(&mut found)?;
    assert_eq!(found, [6; COUNT]);
    let mut bytes = DeviceBuffer::<u64>::zeroed(device, 100)?;
    bytes.fill_on(0x0102_0304_0102_0304, stream)?;
    let mut small = DeviceBuffer::<u16>::zeroed(device, 100)?;
    small.fill_on(0x0102, stream)?;
    assert_eq!(small.to_vec()?, [0x0102; 100]);
    small.close()?;
    bytes.close()?;
    memory.close()
}

pub fn overwritten(world: &World) -> Result<()> {
    let device = &world.here().device;
    device.set_transfer_options(small_ring());
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    memory.host_overwrite(.., |first, slots| slots.fill_with(|i| (first + i) as u32))?;
    let found = memory.to_vec()?;
    assert!(found.iter().enumerate().all(|(i, x)| *x == i as u32));
    let mut unified = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    unified.host_overwrite(100..200, |_, slots| slots.fill_with(|_| 7))?;
    assert_eq!(unified.host()?[99..101], [0, 7]);
    Ok(())
}

pub fn read_from_a_file(world: &World) -> Result<()> {
    let device = &world.here().device;
    device.set_transfer_options(small_ring());
    let this = std::env::current_exe().and_then(File::open).unwrap();
    let runs = Runs {
        offset: 0,
        at: 0,
        bytes: MANY,
        count: 1,
        stride: 0,
    };
    let mut memory = DeviceBuffer::<u8>::zeroed(device, MANY)?;
    let mut pinned = PinnedBuffer::<u8>::zeroed(device, MANY)?;
    for view in [memory.as_view_mut(), pinned.as_view_mut()] {
        let read = FileRead::new(view, &this, std::slice::from_ref(&runs))?;
        let done = FileRead::run(&mut [read], usize::MAX, |_| ControlFlow::Continue(()))?;
        assert_eq!(done, MANY);
    }
    assert!(memory.to_vec()? == *pinned.host()?);
    Ok(())
}

pub fn system_memory(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let mut adopted = UnifiedBuffer::from_vec(device, vec![1u32; COUNT])?;
    adopted.advise(Advice::SetPreferredLocation(Location::from(device)))?;
    adopted.prefetch_on(device, stream)?;
    add.try_run(stream, &mut adopted, COUNT, 1)?;
    let resource = SystemMemory::new(device).headroom_bytes(1 << 30);
    let mut own = UnifiedBuffer::<u32>::zeroed_in(&resource, LARGE)?;
    stream.copy_range(&adopted, .., &mut own, 0)?;
    add.try_run(stream, &mut own, COUNT, 1)?;
    assert_eq!(adopted.into_vec()?, [2; COUNT]);
    assert_eq!(own.read_one(COUNT - 1)?, 3);
    let mut dropped = UnifiedBuffer::from_vec(device, vec![1u32; LARGE])?;
    add.try_run(stream, &mut dropped, LARGE, 1)?;
    drop(dropped);
    let mut slice = vec![1u32; COUNT];
    RegisteredBuffer::scope(device, &mut slice, |slice| {
        add.try_run(stream, slice, COUNT, 1)
    })??;
    assert_eq!(slice, [2; COUNT]);
    own.close()
}

pub fn registered_memory(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    if !device.capabilities().host_register {
        return Ok(());
    }
    let memory = DeviceBuffer::from_slice(device, &[7u32; COUNT])?;
    let mut owned = RegisteredBuffer::from_vec(device, vec![0u32; COUNT])?;
    stream.copy(&memory, &mut owned)?;
    assert_eq!(owned.into_vec()?, [7; COUNT]);
    let mut array = vec![0u32; COUNT];
    RegisteredBuffer::scope(device, &mut array, |registered| {
        stream.copy(&memory, registered)
    })??;
    assert_eq!(array, [7; COUNT]);
    let mut dropped = RegisteredBuffer::from_vec(device, vec![0u32; COUNT])?;
    stream.copy(&memory, &mut dropped)?;
    Ok(())
}

pub fn mapped_memory(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    let capabilities = device.capabilities();
    if !(capabilities.map_host_memory && capabilities.unified_addressing) {
        return Ok(());
    }
    let options = UnifiedOptions::default().placement(Placement::Mapped);
    let mut data = UnifiedBuffer::from_slice_with(device, &[1u32; COUNT], options)?;
    add.try_run(stream, &mut data, COUNT, 4)?;
    assert_eq!(data.host()?[..], [5; COUNT]);
    let pinned = PinnedBuffer::from_slice(device, &[6u32; COUNT])?;
    let again = device.create_stream()?;
    again.copy(&pinned, &mut data)?;
    assert_eq!(data.to_vec()?, [6; COUNT]);
    data.close()?;
    pinned.close()
}

pub fn dropped_in_flight(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let module = Module::load(device, ADD_PTX)?;
    let add = Add(module.kernel("add")?);
    let other = device.create_stream()?;
    let mut managed = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let mut memory = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(device, COUNT)?;
    let paused = world.sim.pause();
    add.try_run(stream, &mut managed, COUNT, 1)?;
    other.copy(&managed, &mut memory)?;
    stream.copy(&memory, &mut pinned)?;
    drop((managed, memory, pinned, add, module, other));
    drop(paused);
    device.runtime().reclaim()
}
