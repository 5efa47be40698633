//! Step 1: one buffer, used by the CPU and the GPU.

use um_backend::{CudaBackend, CudaError};

pub(crate) fn run(backend: &CudaBackend) -> Result<(), CudaError> {
    let mut prices = backend.allocate_unified::<f32>(1_000_000)?;
    println!("{}", prices.placement());

    prices.host_mut()?[7] = 1.5; // the CPU writes
    println!("the CPU wrote {}", prices.host()?[7]);

    prices.fill(2.5)?; // the GPU writes
    println!("the GPU wrote {}", prices.host()?[7]);

    assert_eq!(prices.host()?.as_ptr(), prices.as_ptr()); // one pointer
    Ok(())
}
