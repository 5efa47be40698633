//! Step 5: errors that a program survives, and one that it does not.

use crate::kernel::AddTax;
use um_backend::cuda_um::sys::cudaError;
use um_backend::sim::{Fail, Sim};
use um_backend::{CudaBackend, CudaBackendConfig, CudaError};

pub(crate) fn run(backend: &CudaBackend) -> Result<(), CudaError> {
    let refused = backend.allocate_unified::<f32>(1 << 45).unwrap_err();
    println!("{refused}");
    assert!(refused.is_out_of_memory());

    let mut prices = backend.allocate_unified::<f32>(1000)?; // the program continues
    let refused = prices.copy_from_host(&[1.0; 999]).unwrap_err();
    println!("{refused}");

    let sim = Sim::builder().build().unwrap();
    sim.fail(Fail::call("cuLaunchKernel").with(cudaError::cudaErrorIllegalAddress));
    let config = CudaBackendConfig::default().simulator(sim);
    lose_the_device(&CudaBackend::initialize_blocking(config)?)
}

fn lose_the_device(backend: &CudaBackend) -> Result<(), CudaError> {
    let add_tax = AddTax::load(backend.device())?;
    let prices = backend.allocate_unified::<f32>(1000)?;
    let mut totals = backend.allocate_unified::<f32>(1000)?;
    let stream = backend.device().stream();
    let launched = add_tax.launch(stream, &prices, &mut totals, 0.25);
    let sticky = launched.unwrap_err();
    println!("{sticky}");
    assert!(sticky.is_sticky());
    assert!(totals.host().unwrap_err().is_sticky()); // every later call fails, too
    Ok(())
}
