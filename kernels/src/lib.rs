//! CUDA kernels of cuda-um, with typed launchers and CPU references.
//!
//! | kernel | launcher | CPU reference |
//! |---|---|---|
//! | one value for all elements | [`Fill`] | `slice::fill` |
//! | `out = in × factor` | [`Scale`] | [`scale_cpu`] |
//! | `y = a × x + y` | [`Saxpy`] | [`saxpy_cpu`] |
//! | sum in shared memory, and the naive way | [`Reduce`] | [`reduce_sum_cpu`] |
//! | the `k` targets with the highest cosine for each query | [`CosineTopK`] | [`cosine_top_k_cpu`] |
//! | coalesced and strided copy | [`Copy`](CopyKernels) | `slice::copy_from_slice` |
//!
//! The launchers are safe: they check lengths before the launch, and the borrow checker prevents host access to memory that a
//! kernel writes. The PTX is for compute capability 6.0 and newer and loads on every driver from CUDA 11.8 on.
//!
//! ```
//! use cuda_um::{Runtime, UnifiedBuffer};
//! use um_kernels::{Fill, Reduce, Saxpy, Scale};
//! # use cuda_um_sim::Sim;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::from_table(Sim::builder().build()?.table())?;
//! let device = runtime.device(0)?;
//! let stream = device.create_stream()?;
//! let input = UnifiedBuffer::from_slice(&device, &[1.0f32, 2.0, 3.0])?;
//! let mut output = UnifiedBuffer::zeroed(&device, 3)?;
//! Scale::load(&device)?.launch(&stream, &input, &mut output, 2.0)?;
//! Saxpy::load(&device)?.launch(&stream, 10.0, &input, &mut output)?;
//! assert_eq!(*output.host()?, [12.0, 24.0, 36.0]);
//! let mut sum = UnifiedBuffer::zeroed(&device, 1)?;
//! Reduce::load(&device)?.sum(&stream, &output, &mut sum)?;
//! assert_eq!(*sum.host()?, [72.0]);
//! Fill::load(&device)?.launch(&stream, &mut output, 1.0f32)?;
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod copy;
mod cosine_top_k;
mod cpu;
mod error;
mod fill;
mod grid;
mod reduce;
mod saxpy;
mod scale;

pub use copy::CopyKernels;
pub use cosine_top_k::cpu::cosine_top_k_cpu;
pub use cosine_top_k::{CosineTopK, TopKShape};
pub use cpu::{reduce_sum_cpu, saxpy_cpu, scale_cpu};
pub use fill::Fill;
pub use reduce::Reduce;
pub use saxpy::Saxpy;
pub use scale::Scale;
