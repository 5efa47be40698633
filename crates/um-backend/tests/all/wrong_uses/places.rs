//! Devices, streams and runtimes that do not fit.

use um_backend::cuda_um::Runtime;
use um_backend::sim::Gpu;
use um_backend::{
    Advice, CudaBackend, CudaBackendConfig, DType, Location, MemoryAdvice, RuntimeChoice,
};

use crate::support::kernel::Double;
use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, row_on, rows};

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
