//! The sections of the page.

use um_backend::cuda_um::graph::Recording;
use um_backend::cuda_um::kernel::KernelArgs;
use um_backend::cuda_um::{
    LaunchConfig, Module, Placement, PoolOptions, RegisteredBuffer, Runtime, UnifiedOptions,
    constant,
};
use um_backend::sim::Gpu;
use um_backend::{
    Advice, Buffer, BufferKind, CapturedStep, CudaBackend, CudaBackendConfig, CudaBuffer, DType,
    HostBuffer, Location, MemoryAdvice, PinnedBuffer, Result, RuntimeChoice, Sharded, SharedBuffer,
    Split, UnifiedBuffer, kernels,
};

use crate::support::kernel::Double;
use crate::wrong_uses::page::{Row, check};
use crate::wrong_uses::world::{World, row_on, rows};

#[test]
fn copies_and_ranges() {
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong use")]
    let rows = rows! {
        "`copy_from_host` of 11 elements into 10" => |w| w.unified().copy_from_host(&[0.0; 11]);
        "`copy_to_host` of 10 elements into 9" => |w| w.unified().copy_to_host(&mut [0.0; 9]);
        "`copy_from_buffer` of another length" => |w| w.unified().copy_from_buffer(&HostBuffer::zeroed(5)?);
        "`copy_from_host_at(5, …)` with 6 elements" => |w| w.unified().copy_from_host_at(5, &[0.0; 6]);
        "`copy_from_buffer_at` with a source range past its end" => |w| w.unified().copy_from_buffer_at(0, &HostBuffer::zeroed(5)?, 4..6);
        "`copy_from_buffer_at` with the source range 5..2" => |w| w.unified().copy_from_buffer_at(0, &HostBuffer::zeroed(10)?, 5..2);
        "`read_one(10)`" => |w| w.unified().read_one(10);
        "`fill_range(5..11, …)`" => |w| w.any(BufferKind::Cuda).fill_range(5..11, 1.0);
        "`fill_range(5..2, 0.0)`" => |w| w.any(BufferKind::Cuda).fill_range(5..2, 0.0);
        "`copy_within(0..6, 5)`" => |w| w.on_device().copy_within(0..6, 5);
        "a view of 5..11" => |w| w.on_device().memory().device_view()?.slice(5..11);
        "a copy of 39 bytes into an erased buffer of 10 `f32`" => |w| w.backend.create_erased(BufferKind::Host, DType::F32, 10)?.bytes_mut().copy_from_host(&[0; 39]);
        "`read_from` a file that ends too early" => |w| w.unified().read_from(&mut &[0u8; 39][..], 0..10);
        "`write_to` a full target" => |w| w.unified().write_to(&mut &mut [0u8; 39][..], 0..10);
    };
    check("Copies and ranges", &rows);
}

/// Launches a kernel without parameters on a wrong shape.
fn shaped(world: &World, config: LaunchConfig, shared_bytes: u32) -> Result<()> {
    let ptx = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry f()\n{\n ret;\n}\n";
    let device = world.backend.device();
    let kernel = Module::load(device, ptx)?.kernel("f")?;
    let config = LaunchConfig {
        shared_bytes,
        ..config
    };
    // SAFETY: the kernel has no parameters.
    unsafe { kernel.launch(device.stream(), config, ()) }
}

/// Launches `um_backend_double(data: *mut f32, count: u32)` with wrong arguments.
fn with(world: &World, arguments: impl KernelArgs) -> Result<()> {
    Double::load(world.backend.device()).launch_on(world.backend.device(), 10, arguments)
}

#[test]
fn launches() {
    let mut rows = rows! {
        "an argument too few" => |w| with(w, (&mut w.on_device(),));
        "an argument too many" => |w| with(w, (&mut w.on_device(), 10u32, 1u32));
        "`u64` for a parameter `u32`" => |w| with(w, (&mut w.on_device(), 10u64));
        "`usize` for a parameter `u32`" => |w| with(w, (&mut w.on_device(), 10usize));
        "a `HostBuffer` as an argument" => |w| with(w, (&mut HostBuffer::<f32>::zeroed(10)?, 10u32));
        "such a `dyn Buffer`" => |w| {
            let mut buffer: Box<dyn Buffer<f32>> = Box::new(HostBuffer::<f32>::zeroed(10)?);
            with(w, (&mut *buffer, 10u32))
        };
        "a block of 4096 threads" => |w| shaped(w, LaunchConfig::linear(4096, 4096), 0);
        "a grid of 0 blocks" => |w| shaped(w, LaunchConfig { grid: [0, 1, 1], ..LaunchConfig::linear(1, 32) }, 0);
        "10 MiB of shared memory" => |w| shaped(w, LaunchConfig::linear(1, 32), 10 << 20);
        "`LaunchConfig::linear(usize::MAX, 1)`" => |w| shaped(w, LaunchConfig::linear(usize::MAX, 1), 0);
        "`Reduce::sum` into 10 elements" => |w| {
            let reduce = kernels::Reduce::load(w.backend.device())?;
            reduce.sum(w.backend.device().stream(), &w.on_device(), &mut w.on_device())
        };
    };
    let panic = std::panic::catch_unwind(|| LaunchConfig::linear(4, 0)).unwrap_err();
    rows.push(Row::new(
        "`LaunchConfig::linear(4, 0)`, which panics",
        cuda_um_testkit::message(&*panic),
    ));
    check("Launches", &rows);
}

#[test]
fn graphs() {
    /// The error of a call in a step that has filled a buffer.
    fn capture(world: &World, call: impl FnOnce(&mut CudaBuffer<f32>) -> Result<()>) -> Result<()> {
        let mut buffer = world.on_device();
        let step = || buffer.fill(constant(1.0)).and_then(|()| call(&mut buffer));
        world.backend.capture(|_| step()).map(drop)
    }
    /// A step with a named scalar.
    fn named(world: &World) -> Result<CapturedStep> {
        let mut buffer = world.on_device();
        let record = |step: &Recording<'_>| with(world, (&mut buffer, step.scalar("count", 10u32)));
        world.backend.capture(record)
    }
    let rows = rows! {
        "`copy_from_host` in a step, of a buffer that the step uses" => |w| capture(w, |buffer| buffer.copy_from_host(&[1.0; 10]));
        "`host()` of it" => |w| capture(w, |buffer| buffer.host().map(drop));
        "`host()` of a `HostBuffer` in a step" => |w| capture(w, |_| HostBuffer::<f32>::zeroed(10)?.host().map(drop));
        "`copy_to_host` of it" => |w| capture(w, |_| HostBuffer::<f32>::zeroed(10)?.copy_to_host(&mut [0.0; 10]));
        "`synchronize()` of the stream in a step" => |w| capture(w, |_| w.backend.device().stream().synchronize());
        "a `capture` in a step" => |w| capture(w, |_| w.backend.capture(|_| Ok(())).map(drop));
        "a plain number as an argument in a step" => |w| w.backend.capture(|_| with(w, (&mut w.on_device(), 10u32))).map(drop);
        "a fill with a plain number in a step" => |w| w.backend.capture(|_| w.on_device().fill(1.0)).map(drop);
        "a fill in a step after `host_mut()` of the same buffer in it" => |w| {
            let mut buffer = w.unified();
            w.backend.capture(|_| {
                buffer.host_mut()?[0] = 1.0;
                buffer.fill(constant(1.0))
            })
        };
        "`make_unique` of shared storage in a step" => |w| {
            let mut shared = SharedBuffer::new(w.backend.create_erased(BufferKind::Cuda, DType::F32, 10)?);
            let _other = shared.clone();
            w.backend.capture(|_| shared.make_unique())
        };
        "`CapturedStep::set` of an unknown name" => |w| named(w)?.set("cuont", 9u32);
        "`CapturedStep::set` with a value of another type" => |w| named(w)?.set("count", 9u64);
        "`CapturedStep::launch` without a buffer of the step that is no `SharedBuffer`" => |w| {
            let mut buffer = w.on_device();
            w.backend.capture(|_| buffer.fill(constant(1.0)))?.launch()
        };
    };
    check("Graphs", &rows);
}

fn with_pool(world: &World, options: PoolOptions) -> Result<CudaBackend> {
    let config = CudaBackendConfig::default().simulator(world.sim.clone());
    CudaBackend::initialize_blocking(config.unified_pool(options))
}

#[test]
fn memory() {
    let rows = rows! {
        "`allocate_unified::<f32>(1 << 62)`" => |w| w.backend.allocate_unified::<f32>(1 << 62);
        "more device memory than there is" => |w| w.backend.create_buffer::<f32>(1 << 45, DType::F32);
        "more unified memory than the device has" => |w| {
            let _live = w.backend.allocate_unified::<u8>(40 << 20)?;
            w.backend.synchronize()?; // its pages are on the device
            w.backend.allocate_unified::<u8>(40 << 20)
        };
        "more than a pool's limit" => |w| with_pool(w, PoolOptions::default().limit_bytes(4 << 20))?.allocate_unified::<u8>(5 << 20);
        "a pool with slabs of 3 bytes" => |w| with_pool(w, PoolOptions::default().slab_bytes(3));
        "`RegisteredBuffer::scope` of memory that is pinned already" => |w| {
            let mut pinned = PinnedBuffer::<f32>::zeroed(w.backend.device(), 1000)?;
            let mut guard = pinned.host_mut()?;
            RegisteredBuffer::scope(w.backend.device(), &mut guard, |_| ())
        };
        "a host guard of a view of device memory" => |w| w.on_device().memory().device_view()?.host().map(drop);
        "advice for mapped memory, with `require()`" => |w| {
            let mapped = UnifiedOptions::default().placement(Placement::Mapped);
            let mut scores = UnifiedBuffer::<f32>::zeroed_with(w.backend.device(), 10, mapped)?;
            scores.set_name("scores");
            scores.advise(Advice::SetReadMostly)?.require()
        };
        "a prefetch of a view of device memory, with `require()`" => |w| {
            let mut scores = w.on_device();
            scores.set_name("scores");
            scores.memory().device_view()?.prefetch(Location::Host)?.require()
        };
    };
    check("Memory", &rows);
}

/// A backend over a second runtime of the same driver.
fn other(world: &World) -> CudaBackend {
    let runtime = Runtime::from_table(world.sim.table()).unwrap();
    let config = CudaBackendConfig::default().runtime(RuntimeChoice::Given(runtime));
    CudaBackend::initialize_blocking(config).unwrap()
}

#[test]
fn devices_streams_and_runtimes() {
    let mut rows = rows! {
        "`CudaBackendConfig::device(9)`" => |w| CudaBackend::initialize_blocking(CudaBackendConfig::default().simulator(w.sim.clone()).device(9));
        "`CudaBackendConfig::device(1 << 32)`" => |w| CudaBackend::initialize_blocking(CudaBackendConfig::default().simulator(w.sim.clone()).device(1 << 32));
        "`sibling(9)`" => |w| w.backend.sibling(9);
        "`prefetch_to_device(Some(9))`" => |w| w.unified().prefetch_to_device(Some(9));
        "`set_accessed_by(1 << 32)`" => |w| w.unified().set_accessed_by(1 << 32);
        "`SetReadMostly`, which has no device, with device 9" => |w| w.unified().set_memory_advice(MemoryAdvice::SetReadMostly, Some(9));
        "advice for device 9" => |w| w.unified().advise(Advice::SetAccessedBy(Location::Device(9)));
        "`fill_on` a stream of another device" => |w| w.on_device().fill_on(1.0, w.backend.sibling(1)?.device().stream());
        "a launch with device memory of another device" => |w| {
            let mut there = w.backend.sibling(1)?.create_buffer::<f32>(10, DType::F32)?;
            Double::load(w.backend.device()).launch(w.backend.device(), &mut there)
        };
        "a launch on a stream of another runtime" => |w| {
            Double::load(w.backend.device()).launch(other(w).device(), &mut w.on_device())
        };
        "a launch with a buffer of another runtime" => |w| {
            let mut there = other(w).create_buffer::<f32>(10, DType::F32)?;
            Double::load(w.backend.device()).launch(w.backend.device(), &mut there)
        };
    };
    let world = World::of(Gpu::NoConcurrentAccess);
    rows.push(row_on(
        &world,
        "a launch while a guard lives, without concurrent managed access",
        |w| {
            let buffer = w.unified();
            let _guard = buffer.host()?;
            Ok(Double::load(w.backend.device()).launch(w.backend.device(), &mut w.on_device())?)
        },
    ));
    check("Devices, streams and runtimes", &rows);
}

/// Shards of rows of 5 elements, one on each device.
fn sharded(world: &World, split: Split<'_>) -> Result<Sharded<f32>> {
    let backends = [world.backend.clone(), world.backend.sibling(1)?];
    Sharded::zeroed(&backends, BufferKind::Cuda, 10, 5, split)
}

#[test]
fn shards() {
    let rows = rows! {
        "`Sharded` with a device twice" => |w| {
            Sharded::<f32>::zeroed(&[w.backend.clone(), w.backend.clone()], BufferKind::Cuda, 10, 5, Split::Even)
        };
        "three weights for two devices" => |w| sharded(w, Split::Weights(&[1.0; 3]));
        "a weight that is NaN" => |w| sharded(w, Split::Weights(&[1.0, f64::NAN]));
        "`from_slice` of 7 elements in rows of 5" => |w| {
            Sharded::from_slice(std::slice::from_ref(&w.backend), BufferKind::Cuda, &[1.0; 7], 5, Split::Even)
        };
        "more rows than the memory of device 1" => |w| {
            sharded(w, Split::Even)?;
            let backends = [w.backend.clone(), w.backend.sibling(1)?];
            Sharded::<f32>::zeroed(&backends, BufferKind::Cuda, 40 << 20, 1, Split::Weights(&[0.0, 1.0]))
        };
    };
    check("Shards", &rows);
}

/// Ten f32 in device memory.
fn shared(world: &World) -> Result<SharedBuffer> {
    let buffer = world
        .backend
        .create_erased(BufferKind::Cuda, DType::F32, 10);
    buffer.map(SharedBuffer::new)
}

#[test]
fn shared_storage() {
    let rows = rows! {
        "`view(5..11)`" => |w| shared(w)?.view(5..11);
        "`cast` to blocks that the bytes do not fill" => |w| shared(w)?.cast(DType::Opaque(18));
        "`write()` while the thread has a read guard" => |w| {
            let storage = shared(w)?;
            let _guard = storage.read()?;
            storage.write().map(drop)
        };
        "`read()` of another part while the thread has a write guard" => |w| {
            let storage = shared(w)?;
            let _guard = storage.view(0..5)?.write()?;
            storage.view(5..10)?.read().map(drop)
        };
        "`write()` while a part of `read_async()` lives that the thread took" => |w| {
            let storage = shared(w)?;
            let _guard = pollster::block_on(storage.read_async())?;
            storage.write().map(drop)
        };
        "`lock` to read and to write parts of one storage" => |w| {
            let storage = shared(w)?;
            SharedBuffer::lock([&storage.view(0..5)?], [&storage]).map(drop)
        };
        "`try_write()` while guards live" => |w| {
            let storage = shared(w)?;
            let _guards = (storage.read()?, storage.read()?);
            storage.try_write().map(drop)
        };
        "`host::<f64>()` of storage of `f32`" => |w| shared(w)?.host::<f64>().map(drop);
    };
    check("Shared storage", &rows);
}

#[test]
fn types() {
    let rows = rows! {
        "`UnifiedBuffer::<i32>::new(…, DType::F32)`" => |w| UnifiedBuffer::<i32>::new(w.backend.device().clone(), 10, DType::F32);
        "`typed::<f32>()` of an erased buffer of `i32`" => |w| w.backend.create_erased(BufferKind::Unified, DType::I32, 10)?.typed::<f32>().map(drop);
        "`create_erased_from` of 7 bytes for `f32`" => |w| w.backend.create_erased_from(BufferKind::Host, DType::F32, &[0; 7]);
        "`copy_from` an erased buffer of another type" => |w| {
            let source = w.backend.create_erased(BufferKind::Host, DType::BF16, 10)?;
            w.backend.create_erased(BufferKind::Host, DType::F32, 10)?.copy_from(&source)
        };
        "`\"float33\".parse::<DType>()`" => |_w| "float33".parse::<DType>();
        "`DType::Opaque(0)`" => |w| w.backend.create_erased(BufferKind::Host, DType::Opaque(0), 1);
        "a launcher for `f32` with an erased buffer of `i32`" => |w| {
            let scale = kernels::Scale::load(w.backend.device())?;
            let input = w.backend.create_erased(BufferKind::Cuda, DType::I32, 10)?;
            scale.launch(w.backend.device().stream(), &input, &mut w.on_device(), 2.0)
        };
        "`cast::<f64>()` of a view of 3 `f32`" => |w| w.on_device().memory().device_view()?.slice(0..3)?.cast::<f64>().map(drop);
        "`cast::<f32>()` of a view of bytes that begins at byte 1" => |w| {
            let bytes = w.backend.create_buffer::<u8>(40, DType::U8)?;
            bytes.memory().device_view()?.slice(1..5)?.cast::<f32>().map(drop)
        };
    };
    check("Types", &rows);
}
