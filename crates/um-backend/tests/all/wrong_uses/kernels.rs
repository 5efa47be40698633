//! Launches with wrong arguments and wrong shapes.

use um_backend::cuda_um::{Kernel, Module, kernel::KernelArgs};
use um_backend::{
    Buffer, BufferKind, CapturedStep, CudaBuffer, CudaError, DType, HostBuffer, SharedBuffer,
    cuda_um::{LaunchConfig, constant, graph::Recording},
    kernels,
};

use crate::support::kernel::Double;
use crate::wrong_uses::page::{Row, check};
use crate::wrong_uses::world::{World, rows};

/// Launches a kernel without parameters on a wrong shape.
fn shaped(world: &World, config: LaunchConfig) -> um_backend::cuda_um::Result<()> {
    let ptx =
        ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry shaped()\n{\n ret;\n}\n";
    let device = world.backend.device();
    let kernel: Kernel = Module::load(device, ptx)?.kernel("shaped")?;
    // SAFETY: the kernel has no parameters.
    unsafe { kernel.launch(device.stream(), config, ()) }
}

/// Launches `um_backend_double(data: *mut f32, count: u32)` with wrong arguments.
fn with(world: &World, arguments: impl KernelArgs) -> Result<(), CudaError> {
    Double::load(world.backend.device()).launch_on(world.backend.device(), 10, arguments)
}

fn shape(grid: u32, block: u32, shared_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes,
    }
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
        "a block of 4096 threads" => |w| shaped(w, shape(1, 4096, 0));
        "a grid of 0 blocks" => |w| shaped(w, shape(0, 32, 0));
        "10 MiB of shared memory" => |w| shaped(w, shape(1, 32, 10 << 20));
        "`LaunchConfig::linear(usize::MAX, 1)`" => |w| shaped(w, LaunchConfig::linear(usize::MAX, 1));
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
    fn capture(
        world: &World,
        call: impl FnOnce(&mut CudaBuffer<f32>) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let mut buffer = world.on_device();
        let step = || buffer.fill(constant(1.0)).and_then(|()| call(&mut buffer));
        world.backend.capture(|_| step()).map(drop)
    }
    /// A step with a named scalar.
    fn named(world: &World) -> Result<CapturedStep, CudaError> {
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
