//! Step 3: which data moved, and why.

use crate::kernel::AddTax;
use um_backend::profile::trace::MigrationReport;
use um_backend::{CudaBackend, CudaError};

pub(crate) type Work = fn(&CudaBackend, &AddTax) -> Result<f32, CudaError>;

pub(crate) fn run(backend: &CudaBackend) -> Result<(), CudaError> {
    report(backend, work)
}

pub(crate) fn report(backend: &CudaBackend, work: Work) -> Result<(), CudaError> {
    let device = backend.device();
    let add_tax = AddTax::load(device)?;
    let (sum, trace) = backend.profile(|| work(backend, &add_tax))?;
    assert_eq!(sum?, 2.5e6);
    print!("{}", MigrationReport::of(&trace, &device.cost_model()));
    Ok(())
}

fn work(backend: &CudaBackend, add_tax: &AddTax) -> Result<f32, CudaError> {
    let mut prices = backend.allocate_unified::<f32>(1_000_000)?;
    let mut totals = backend.allocate_unified::<f32>(1_000_000)?;
    prices.set_name("prices");
    totals.set_name("totals");
    prices.host_mut()?.fill(2.0);
    add_tax.launch(backend.device().stream(), &prices, &mut totals, 0.25)?;
    Ok(totals.host()?.iter().sum())
}
