//! Streams, events, modules, and a runtime from its start to its end.

use super::{
    COUNT, MANY,
    copies::{numbers, small_ring},
};
use crate::world::World;
use cuda_um::{
    DeviceBuffer, Event, LaunchConfig, Module, Result, Runtime, UnifiedBuffer, constant,
};
use cuda_um_testkit::{ADD_PTX, Add};

pub fn events_and_streams(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let other = device.create_stream()?;
    let mut data = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    let before = Event::timed(stream)?;
    data.fill_on(1, stream)?;
    let after = Event::timed(stream)?;
    other.wait(&after)?;
    let point = other.record()?;
    point.synchronize()?;
    assert!(point.is_complete()?);
    after.elapsed_since(&before)?;
    other.synchronize()?;
    assert!(other.is_idle()?);
    device.synchronize()?;
    device.memory_info()?;
    data.close()
}

pub fn modules(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let module = Module::load(device, ADD_PTX)?;
    let kernel = module.kernel("add")?;
    kernel.allow_shared_bytes(1024)?;
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let config = LaunchConfig::linear(COUNT, 128);
    #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
    // SAFETY: the kernel writes `COUNT` elements.
    unsafe { kernel.launch(stream, config, (&mut data, COUNT as u32, 8u32)) }?;
    drop((kernel, module));
    assert_eq!(data.host()?[..], [8; COUNT]);
    Ok(())
}

/// A capture over two streams, launches, a named scalar, and drops while the work runs.
pub fn graphs(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let second = device.create_stream()?;
    let add = Add(Module::load(device, ADD_PTX)?.kernel("add")?);
    let source = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let graph = stream.capture(|step| {
        step.fork(&second)?;
        stream.copy(&source, &mut data)?;
        let (len, number) = (constant(COUNT as u32), step.scalar("number", 2u32));
        add.launch(&second, COUNT, (&mut data, len, number))?;
        let local = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
        drop(local);
        Ok(())
    })?;
    let mut exec = graph.instantiate()?;
    exec.launch(stream, (&source, &mut data))?;
    exec.set("number", 5u32)?;
    exec.launch(&second, (&source, &mut data))?;
    assert_eq!(data.host()?[..], [5; COUNT]);
    exec.launch(stream, (&source, &mut data))?;
    drop((exec, graph));
    data.close()
}

/// A separate runtime: tests the calls when it is opened, and at its end.
pub fn from_open_to_end(world: &World) -> Result<()> {
    let runtime = Runtime::from_table(world.sim.table())?;
    let lived = live(&runtime);
    let reclaimed = runtime.reclaim();
    lived.and(reclaimed)
}

pub fn live(runtime: &Runtime) -> Result<()> {
    runtime.driver_version()?;
    let device = runtime.device(0)?;
    let stream = device.create_stream()?;
    device.set_transfer_options(small_ring());
    let add = Module::load(&device, ADD_PTX)?.kernel("add")?;
    let add = Add(add);
    let source = numbers();
    let mut data = UnifiedBuffer::from_slice(&device, &source)?;
    add.try_run(&stream, &mut data, MANY, 1)?;
    assert_eq!(data.to_vec()?[7], source[7] + 1);
    Ok(())
}
