//! [Candle](https://docs.rs/candle-core) tensors on unified memory of cuda-um.
//!
//! - [`UnifiedDevice`] joins a CUDA device of candle with the same device of cuda-um.
//! - [`zeros`](UnifiedDevice::zeros), [`from_slice`](UnifiedDevice::from_slice) and [`copy`](UnifiedDevice::copy) make tensors that own memory
//!   of the driver's managed pool (CUDA 13.0 and newer). Candle uses, clones and frees them as its own.
//! - [`host`](UnifiedDevice::host) and [`host_mut`](UnifiedDevice::host_mut) read and write a tensor in place, after candle's work.
//! - [`prefetch`](UnifiedDevice::prefetch), [`advise`](UnifiedDevice::advise) and [`attributes`](UnifiedDevice::attributes) place the memory;
//!   [`name`](UnifiedDevice::name) names a tensor in profiles.
//! - [`lend`](UnifiedDevice::lend) makes a tensor of any unified buffer for a while, with every version of CUDA.
//! - [`LoadedWeights`] loads files of weights for candle's `VarBuilder`, at the speed of um-weights.
//!
//! ```no_run
//! use candle_core::{Device, Tensor};
//! use cuda_um::{Location, Runtime};
//! use um_candle::UnifiedDevice;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let candle = Device::new_cuda_with_stream(0)?;
//! let unified = UnifiedDevice::new(&candle, &Runtime::open()?)?;
//! let a = unified.zeros::<f32>((64, 64))?;
//! unified.host_mut(&a, |elements: &mut [f32]| elements.fill(1.5))?; // in place
//! unified.prefetch(&a, Location::Device(0))?;
//! let product = unified.copy(&a.matmul(&Tensor::ones_like(&a)?)?)?;
//! println!("{}", unified.host(&product, |elements: &[f32]| elements[0])?); // waits for the product
//! # Ok(())
//! # }
//! ```
//!
//! # What this crate does not do
//!
//! [`UnifiedDevice`] refuses `Device::new_cuda`, which works on the default stream of each thread and orders nothing between them.
//! Results of candle's operations are ordinary tensors in device memory; [`copy`](UnifiedDevice::copy) or `Tensor::slice_set` brings them to
//! unified memory. Streams must not be captured into a graph.

mod device;
mod element;
mod error;
mod host;
mod lend;
mod place;
mod weights;

pub use device::UnifiedDevice;
pub use element::Element;
pub use error::{Error, Result};
pub use place::Named;
pub use weights::LoadedWeights;
