//! Opening a backend with an invalid device or pool.

use um_backend::{CudaBackend, CudaBackendConfig, CudaDevice, cuda_um::PoolOptions};

use crate::world::{World, cases, run};

fn config(world: &World) -> CudaBackendConfig {
    CudaBackendConfig::default().simulator(world.sim.clone())
}

#[test]
fn devices_that_are_not_there() {
    run(cases! {
        "CudaBackend::initialize_blocking", "a device too many": |w| CudaBackend::initialize_blocking(config(w).device(2))
            => NoSuchDevice, ["there is no device 2: the runtime has 2"];
        "CudaBackend::initialize_blocking", "2^32": |w| CudaBackend::initialize_blocking(config(w).device(1 << 32))
            => NoSuchDevice, ["there is no device 4294967296: the runtime has 2"];
        "CudaBackend::initialize", "usize::MAX": |w| pollster::block_on(CudaBackend::initialize(config(w).device(usize::MAX)))
            => NoSuchDevice, ["there is no device 18446744073709551615: the runtime has 2"];
        "CudaDevice::new", "usize::MAX": |_w| CudaDevice::new(usize::MAX)
            => NoSuchDevice, ["there is no device 18446744073709551615: the runtime has"];
    });
}

#[test]
fn pools_that_cannot_be() {
    run(cases! {
        "CudaBackend::initialize_blocking", "slabs of 3 bytes": |w| CudaBackend::initialize_blocking(config(w).unified_pool(PoolOptions::default().slab_bytes(3)))
            => InvalidArgument, ["slabs cannot be 3 bytes", "multiple of 2 MiB"];
        "CudaBackend::initialize_blocking", "slabs of usize::MAX": |w| CudaBackend::initialize_blocking(config(w).unified_pool(PoolOptions::default().slab_bytes(usize::MAX)))
            => InvalidArgument, ["slabs cannot be 18446744073709551615 bytes"];
    });
}
