//! Kernels and CPU references that fail, and the calls after that.

use um_backend::sim::{CpuReference, Gpu, ReferenceError, Sim};
use um_backend::{
    CudaBackend, CudaBackendConfig,
    cuda_um::{LaunchConfig, Module},
};

use crate::support::kernel::Double;
use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{Outcome, World, row, row_on};

const PTX: &str = ".version 6.4
.target sm_50
.address_size 64
.visible .entry mini_scale(.param .u64 input, .param .u64 output, .param .u32 count)
{
    ret;
}
";

/// Launches `mini_scale` with this CPU reference, and waits.
fn with_reference(reference: CpuReference) -> Outcome {
    let builder = Sim::builder().gpu(Gpu::H200);
    // SAFETY: the references write nothing.
    let sim = unsafe { builder.kernel("mini_scale", reference) }.build()?;
    let config = CudaBackendConfig::default().simulator(sim);
    let backend = CudaBackend::initialize_blocking(config)?;
    let kernel = Module::load(backend.device(), PTX)?.kernel("mini_scale")?;
    let buffer = backend.create_cuda::<f32>(10)?;
    let address = buffer.as_view().as_ptr() as u64;
    let shape = LaunchConfig::linear(10, 32);
    // SAFETY: the reference fails before it writes.
    unsafe { kernel.launch(backend.device().stream(), shape, (address, address, 10u32)) }?;
    Ok(backend.synchronize()?)
}

/// Launches a kernel that leaves its buffer, and waits until the device is lost.
fn lose(world: &World) -> String {
    let device = world.backend.device();
    let mut buffer = world.on_device();
    Double::load(device)
        .launch_on(device, 1 << 24, (&mut buffer, 1u32 << 24))
        .unwrap();
    world.backend.synchronize().unwrap_err().to_string()
}

#[test]
fn kernels_that_fail() {
    let reference =
        |wrong: &str, reference: CpuReference| row(wrong, |_| with_reference(reference));
    let lost = World::new();
    let mut rows = vec![row_on(&lost, "a kernel that leaves its buffer", |w| {
        Err(lose(w).into())
    })];
    rows.push(row_on(&lost, "an allocation after that", |w| {
        w.backend.create_cuda::<f32>(10)?;
        Ok(())
    }));
    rows.push(row_on(&lost, "`memory_info` after that", |w| {
        w.backend.device().memory_info()?;
        Ok(())
    }));
    rows.push(row("a kernel that writes a buffer passed as `&`", |w| {
        let device = w.backend.device();
        Double::load(device).launch_on(device, 10, (&w.on_device(), 10u32))?;
        Ok(w.backend.synchronize()?)
    }));
    rows.push(reference(
        "a CPU reference that reads a parameter of another size",
        |launch| launch.value::<u64>(2).map(drop),
    ));
    rows.push(reference(
        "a CPU reference that reads a parameter too many",
        |launch| launch.value::<u32>(3).map(drop),
    ));
    rows.push(reference(
        "a CPU reference with two slices of one range, of which it writes one",
        |launch| {
            let _input = launch.slice::<f32>(0, 10)?;
            launch.slice_mut::<f32>(1, 10).map(drop)
        },
    ));
    rows.push(reference("a CPU reference that panics", |_| {
        panic!("my assertion")
    }));
    rows.push(reference(
        "a CPU reference with an error of its own",
        |_| Err(ReferenceError::Failed("rounds differ".to_owned())),
    ));
    for row in &mut rows {
        // The first call after the failure reports it, and which one that is differs from run to run.
        let (call, rest) = row.message.split_once(": ").unwrap();
        assert!(call.starts_with("cuda"), "{}", row.message);
        let rest = rest.strip_prefix("device 0: ").unwrap();
        let (what, _) = rest
            .split_once("; the device is unusable until the process ends")
            .unwrap();
        row.message = what.to_owned();
    }
    check("Kernels that fail", &rows);
}
