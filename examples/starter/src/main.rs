//! `y = 2x + y` on memory that the CPU and the GPU share: on the GPU if there is one, otherwise on the simulator.

use um_backend::kernels::Saxpy;
use um_backend::{CudaBackend, CudaBackendConfig, CudaError};

fn main() -> Result<(), CudaError> {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    println!("{}", backend.runtime_description());
    let device = backend.device();
    let saxpy = Saxpy::load(device)?;

    let mut x = backend.allocate_unified::<f32>(1_000_000)?;
    let mut y = backend.allocate_unified::<f32>(1_000_000)?;
    x.host_mut()?.fill(1.5); // the CPU writes
    y.host_mut()?.fill(1.0);
    x.prefetch(device)?; // migrates before the kernel needs it
    y.prefetch(device)?;
    saxpy.launch(device.stream(), 2.0, &x, &mut y)?; // the GPU reads `x` and writes `y`
    println!("y[7] = {}", y.host()?[7]); // waits for the GPU
    assert!(y.host()?.iter().all(|&value| value == 4.0));
    Ok(())
}
