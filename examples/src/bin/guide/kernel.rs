//! Step 2: a kernel.
#![allow(unsafe_code, reason = "launches a kernel")]

use um_backend::cuda_um::{Device, Kernel, LaunchConfig, Module, Stream};
use um_backend::{Buffer, CudaBackend, CudaError};

/// `totals[i] = prices[i] * (1 + rate)`
pub(crate) struct AddTax(Kernel);

impl AddTax {
    pub(crate) fn load(device: &Device) -> Result<Self, CudaError> {
        let module = Module::load(device, include_str!("add_tax.ptx"))?;
        Ok(Self(module.kernel("add_tax")?))
    }

    pub(crate) fn launch(
        &self,
        stream: &Stream,
        prices: &dyn Buffer<f32>,
        totals: &mut dyn Buffer<f32>,
        rate: f32,
    ) -> Result<(), CudaError> {
        let prices = prices.memory().device_view()?;
        let totals = totals.memory_mut().device_view_mut()?;
        let count = prices.len().min(totals.len());
        let shape = LaunchConfig::linear(count, 256);
        let arguments = (prices, totals, rate, count as u32);
        // SAFETY: these are the kernel's parameters, and it uses only `count` elements of each view.
        unsafe { self.0.launch(stream, shape, arguments)? };
        Ok(())
    }
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
