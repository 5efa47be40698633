//! Kernels that fail, and the calls after that.

use um_backend::sim::{Gpu, Sim};
use um_backend::{
    CudaBackend, CudaBackendConfig,
    cuda_um::{LaunchConfig, Module},
};

use crate::support::kernel::Double;
use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{Outcome, World, row, row_on};

/// Launches a kernel with this body on an address, and waits.
fn with_body(body: &str) -> Outcome {
    let text = format!(
        ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry mini_store(.param .u64 data)\n{{\n\
         .reg .b64 %rd0;\nld.param.u64 %rd0, [data];\n{body}\nret;\n}}\n"
    );
    let config = CudaBackendConfig::default().simulator(Sim::builder().gpu(Gpu::H200).build()?);
    let backend = CudaBackend::initialize_blocking(config)?;
    let kernel = Module::load(backend.device(), &text)?.kernel("mini_store")?;
    let buffer = backend.create_cuda::<f32>(10)?;
    let address = buffer.as_view().as_ptr() as u64;
    let shape = LaunchConfig::linear(1, 32);
    // SAFETY: the bodies fail before they write.
    unsafe { kernel.launch(backend.device().stream(), shape, (address,)) }?;
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
    for (wrong, body) in [
        ("a misaligned address", "st.global.u64 [%rd0+4], %rd0;"),
        (
            "an address that no allocation has",
            "st.global.u64 [16], %rd0;",
        ),
        ("`trap`", "trap;"),
    ] {
        rows.push(row(wrong, |_| with_body(body)));
    }
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
