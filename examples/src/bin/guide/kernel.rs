//! Step 2: a kernel.

use um_backend::cuda_um::{self, LaunchConfig};
use um_backend::{CudaBackend, CudaError};

cuda_um::kernel! {
    pub(crate) struct AddTax in include_str!("add_tax.ptx");

    /// `totals[i] = prices[i] * (1 + rate)`
    // SAFETY: these are the kernel's parameters, and a thread uses the element of its number, if it is below `count`.
    pub(crate) unsafe fn launch = "add_tax"(prices: &[f32], totals: &mut [f32], rate: f32, count as u32)
        with |_, count| LaunchConfig::linear(count, 256);
}

pub(crate) fn run(backend: &CudaBackend) -> Result<(), CudaError> {
    let add_tax = AddTax::load(backend.device())?;
    let mut prices = backend.allocate_unified::<f32>(1_000_000)?;
    let mut totals = backend.allocate_unified::<f32>(1_000_000)?;
    prices.host_mut()?.fill(2.0);
    add_tax.launch(backend.device().stream(), &prices, &mut totals, 0.25)?;
    println!("the total is {}", totals.host()?[999_999]);
    assert_eq!(totals.host()?[999_999], 2.5);
    Ok(())
}
