//! What programs do with the library: each scenario over a fresh simulator, given back by its end.

use crate::check::{World, ptx};
use cuda_um::{
    AccessPattern, Advice, DeviceBuffer, DevicePool, Event, LaunchConfig, Location, Module,
    PinnedBuffer, PinnedPool, Placement, PoolOptions, PrefetchBatch, RegisteredBuffer, Result,
    Runtime, TransferOptions, UnifiedBuffer, UnifiedOptions, UnifiedPool, prefetch_all,
};
use cuda_um_sim::CudaVersion::{self, V11_8, V12_9, V13_0, V13_4};
use cuda_um_sim::Gpu::{self, H200, Maxwell, NoConcurrentAccess};

/// A scenario. It asserts what it finds, also where a failed call did no harm.
pub struct Scenario {
    pub name: &'static str,
    pub machines: &'static [(Gpu, CudaVersion)],
    pub run: fn(&World) -> Result<()>,
}

const ALL: &[(Gpu, CudaVersion)] = &[(H200, V13_0), (NoConcurrentAccess, V12_9), (Maxwell, V11_8)];
const FAULTING: &[(Gpu, CudaVersion)] = &[(H200, V13_4), (H200, V12_9)];

macro_rules! scenarios {
    ($($name:ident on $machines:expr;)*) => {
        pub const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            machines: $machines,
            run: $name,
        }),*];
    };
}

scenarios! {
    main_job on ALL;
    device_memory on ALL;
    streams_in_turn on ALL;
    staged_copies on ALL;
    async_copies on ALL;
    overwritten on ALL;
    unified_pool on ALL;
    pinned_pool on ALL;
    device_pool on ALL;
    batch_prefetch on FAULTING;
    advice_and_residency on FAULTING;
    dropped_in_flight on ALL;
    registered_memory on ALL;
    mapped_memory on ALL;
    events_and_streams on ALL;
    modules on ALL;
    from_open_to_end on ALL;
}

const COUNT: usize = 5000;
/// Enough for several threads.
const MANY: usize = 400_000;

fn main_job(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    for (i, value) in data.host_mut()?.iter_mut().enumerate() {
        *value = i as u32;
    }
    if world.migrates() {
        data.advise(Advice::SetPreferredLocation(Location::from(device)))?;
        data.prefetch(device, stream)?;
    }
    world
        .add
        .launch(stream, COUNT, (&mut data, COUNT as u32, 2u32))?;
    if world.migrates() {
        data.prefetch(Location::Host, stream)?;
    }
    let host = data.host()?;
    assert!(host.iter().enumerate().all(|(i, x)| *x == i as u32 + 2));
    drop(host);
    data.close()
}

fn device_memory(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let mut memory = DeviceBuffer::from_slice(device, &[5u32; COUNT])?;
    world
        .add
        .launch(stream, COUNT, (&mut memory, COUNT as u32, 1u32))?;
    let mut found = vec![0; COUNT];
    memory.copy_to_host(&mut found)?;
    assert_eq!(found, [6; COUNT]);
    let mut bytes = DeviceBuffer::<u64>::zeroed(device, 100)?;
    bytes.fill(0x0102_0304_0102_0304, stream)?;
    let mut small = DeviceBuffer::<u16>::zeroed(device, 100)?;
    small.fill(0x0102, stream)?;
    assert_eq!(small.read_back()?, [0x0102; 100]);
    small.close()?;
    bytes.close()?;
    memory.close()
}

fn streams_in_turn(world: &World) -> Result<()> {
    let (device, first) = (&world.device, &world.stream);
    let second = device.stream()?;
    let mut a = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let mut b = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    for _ in 0..3 {
        world
            .add
            .launch(first, COUNT, (&mut a, COUNT as u32, 3u32))?;
        second.copy(&a, &mut b)?;
        world
            .add
            .launch(first, COUNT, (&mut b, COUNT as u32, 1u32))?;
        second.copy(&b, &mut a)?;
    }
    assert_eq!(a.host()?[..], [12; COUNT]);
    Ok(())
}

fn small_ring() -> TransferOptions {
    TransferOptions::default().threads(2).ring_bytes(1 << 20)
}

fn numbers() -> Vec<u32> {
    (0..MANY as u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect()
}

fn staged_copies(world: &World) -> Result<()> {
    let device = &world.device;
    device.set_transfer_options(small_ring());
    let source = numbers();
    let unified = UnifiedBuffer::from_slice(device, &source)?;
    assert!(unified.read_back()? == source);
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    memory.copy_from_host(&source)?;
    let mut back = vec![0; MANY];
    memory.copy_to_host(&mut back)?;
    assert!(back == source);
    device.set_transfer_options(small_ring());
    Ok(())
}

fn async_copies(world: &World) -> Result<()> {
    let device = &world.device;
    device.set_transfer_options(small_ring());
    let source = numbers();
    let mut back = vec![0; MANY];
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    pollster::block_on(memory.copy_from_host_async(&source))?;
    pollster::block_on(memory.copy_to_host_async(&mut back))?;
    assert!(back == source);
    let mut unified = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    world
        .add
        .launch(&world.stream, COUNT, (&mut unified, COUNT as u32, 9u32))?;
    assert_eq!(pollster::block_on(unified.host_async())?[..], [9; COUNT]);
    Ok(())
}

fn overwritten(world: &World) -> Result<()> {
    let device = &world.device;
    device.set_transfer_options(small_ring());
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    memory.host_overwrite(.., |first, slots| slots.fill_with(|i| (first + i) as u32))?;
    let found = memory.read_back()?;
    assert!(found.iter().enumerate().all(|(i, x)| *x == i as u32));
    let mut unified = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    unified.host_overwrite(100..200, |_, slots| slots.fill_with(|_| 7))?;
    assert_eq!(unified.host()?[99..101], [0, 7]);
    Ok(())
}

fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(2 << 20)
}

fn unified_pool(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let pool = UnifiedPool::new(device, options())?;
    for round in 0..3u32 {
        let mut small = pool.from_slice(&[round; COUNT])?;
        let mut large = pool.zeroed::<u32>(MANY)?;
        if world.migrates() {
            small.advise(Advice::SetReadMostly)?;
        }
        world
            .add
            .launch(stream, COUNT, (&mut large, COUNT as u32, round + 1))?;
        world
            .add
            .launch(stream, COUNT, (&mut small, COUNT as u32, 1u32))?;
        drop(large);
        assert_eq!(small.host()?[..], [round + 1; COUNT]);
    }
    pool.trim();
    Ok(())
}

fn pinned_pool(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
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
    drop(pool.zeroed::<u8>(5 << 20)?);
    Ok(())
}

fn device_pool(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let pool = DevicePool::new(device, options())?;
    let mut last = Vec::new();
    for round in 0..3u32 {
        let mut scratch = pool.zeroed::<u32>(COUNT)?;
        let mut more = pool.from_slice(&[round; COUNT])?;
        world
            .add
            .launch(stream, COUNT, (&mut scratch, COUNT as u32, round))?;
        stream.copy(&scratch, &mut more)?;
        last = more.read_back()?;
    }
    assert_eq!(last, [2; COUNT]);
    pool.zeroed::<u32>(COUNT)?.close()?;
    pool.trim();
    pool.stats();
    Ok(())
}

fn batch_prefetch(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let pool = UnifiedPool::new(device, options())?;
    let own = [3u32, 4].map(|value| UnifiedBuffer::from_slice(device, &[value; COUNT]));
    let [first, second] = own;
    let (first, second) = (first?, second?);
    let pooled = pool.from_slice(&[5u32; COUNT])?;
    let mut batch = PrefetchBatch::new();
    batch.add(&first).add(&second).add(&pooled);
    batch.prefetch(Location::Host, stream)?;
    prefetch_all(&[&first, &second, &pooled], device, stream)?;
    for (buffer, value) in [(&first, 3), (&second, 4), (&pooled, 5)] {
        assert_eq!(buffer.host()?[..], [value; COUNT]);
    }
    Ok(())
}

fn advice_and_residency(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let options = UnifiedOptions::default().pattern(AccessPattern::DeviceResident);
    let data = UnifiedBuffer::<u32>::zeroed_with(device, 2 << 20, options)?;
    data.advise(Advice::SetReadMostly)?;
    data.prefetch_range(1 << 20.., Location::Host, stream)?;
    let parts: usize = data.residency()?.iter().map(|part| part.bytes.len()).sum();
    assert_eq!(parts, data.size_bytes());
    let attributes = data.range_attributes()?;
    assert!(attributes.read_mostly && attributes.preferred_location.is_some());
    data.advise(Advice::UnsetReadMostly)?;
    data.forget_residency();
    data.prefetch(device, stream)?;
    assert_eq!(data.host()?[5], 0);
    Ok(())
}

fn dropped_in_flight(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let module = Module::load(device, &ptx())?;
    let add = crate::support::Add(module.kernel("add")?);
    let other = device.stream()?;
    let mut managed = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let mut memory = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(device, COUNT)?;
    let paused = world.sim.pause();
    add.launch(stream, COUNT, (&mut managed, COUNT as u32, 1u32))?;
    other.copy(&managed, &mut memory)?;
    stream.copy(&memory, &mut pinned)?;
    drop((managed, memory, pinned, add, module, other));
    drop(paused);
    device.runtime().reclaim()
}

fn registered_memory(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
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

fn mapped_memory(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let capabilities = device.capabilities();
    if !(capabilities.map_host_memory && capabilities.unified_addressing) {
        return Ok(());
    }
    let options = UnifiedOptions::default().placement(Placement::Mapped);
    let mut data = UnifiedBuffer::from_slice_with(device, &[1u32; COUNT], options)?;
    world
        .add
        .launch(stream, COUNT, (&mut data, COUNT as u32, 4u32))?;
    assert_eq!(data.host()?[..], [5; COUNT]);
    let pinned = PinnedBuffer::from_slice(device, &[6u32; COUNT])?;
    let again = device.stream()?;
    again.copy(&pinned, &mut data)?;
    assert_eq!(data.read_back()?, [6; COUNT]);
    data.close()?;
    pinned.close()
}

fn events_and_streams(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let other = device.stream()?;
    let mut data = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
    let before = Event::timed(stream)?;
    data.fill(1, stream)?;
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

fn modules(world: &World) -> Result<()> {
    let (device, stream) = (&world.device, &world.stream);
    let module = Module::load(device, &ptx())?;
    let kernel = module.kernel("add")?;
    assert!(kernel.attributes()?.max_threads_per_block >= 256);
    kernel.resident_blocks(256, 0)?;
    kernel.allow_shared_bytes(1024)?;
    let mut data = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    let config = LaunchConfig::linear(COUNT, 128);
    // SAFETY: the kernel writes `COUNT` elements.
    #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
    unsafe { kernel.launch(stream, config, (&mut data, COUNT as u32, 8u32)) }?;
    drop((kernel, module));
    assert_eq!(data.host()?[..], [8; COUNT]);
    Ok(())
}

/// A runtime of its own: what is called when it is opened, and at its very end.
fn from_open_to_end(world: &World) -> Result<()> {
    let runtime = Runtime::from_table(world.sim.table())?;
    let lived = live(&runtime);
    let reclaimed = runtime.reclaim();
    lived.and(reclaimed)
}

fn live(runtime: &Runtime) -> Result<()> {
    runtime.driver_version()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    device.set_transfer_options(small_ring());
    let add = Module::load(&device, &ptx())?.kernel("add")?;
    let add = crate::support::Add(add);
    let source = numbers();
    let mut data = UnifiedBuffer::from_slice(&device, &source)?;
    add.launch(&stream, MANY, (&mut data, MANY as u32, 1u32))?;
    assert_eq!(data.read_back()?[7], source[7] + 1);
    Ok(())
}
