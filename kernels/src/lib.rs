//! CUDA kernels of cuda-um, with typed launchers and CPU references.
//!
//! | kernel | launcher | CPU reference |
//! |---|---|---|
//! | batch cosine similarity with top-k | [`CosineTopK`] | [`cosine_top_k_cpu`] |
//! | the same lists, filtered first on tensor cores | [`ExactTopK`] | the same |
//! | the same lists as [`cosine_top_k_cpu`], filtered first in 8-bit integers, on the CPU | | [`CpuTargets`] |
//! | bf16 from the streams of cuda-um-codec | [`Bf16Decode`] | `cuda_um_codec::decode_blocks` |
//! | one value for all elements | [`Fill`] | `slice::fill` |
//! | `out = in × factor` | [`Scale`] | [`scale_cpu`] |
//! | `y = a × x + y` | [`Saxpy`] | [`saxpy_cpu`] |
//! | sum in shared memory, and the naive way | [`Reduce`] | [`reduce_sum_cpu`] |
//! | coalesced and strided copy | [`Copy`](CopyKernels) | `slice::copy_from_slice` |
//!
//! The launchers are safe: they check lengths before the launch, and the borrow checker prevents host access to memory that a
//! kernel writes. The PTX is for compute capability 6.0 and newer and loads on every driver from CUDA 11.8 on. The filters of
//! [`ExactTopK`] need 8.0 (and 9.0 for the faster one); on other devices it runs without a filter.
//!
//! With the feature `sim`, loading a launcher registers the CPU references as kernels of the simulator `cuda-um-sim`.
//!
#![cfg_attr(feature = "sim", doc = "```")]
#![cfg_attr(not(feature = "sim"), doc = "```ignore")]
//! use cuda_um::{Runtime, UnifiedBuffer};
//! # use cuda_um_sim::Sim;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # um_kernels::sim::register();
//! let runtime = Runtime::from_table(Sim::builder().build()?.table())?;
//! let device = runtime.device(0)?;
//! let stream = device.stream()?;
//! let input = UnifiedBuffer::from_slice(&device, &[1.0f32, 2.0, 3.0])?;
//! let mut output = UnifiedBuffer::zeroed(&device, 3)?;
//! um_kernels::Scale::load(&device)?.launch(&stream, &input, &mut output, 2.0)?;
//! assert_eq!(*output.host()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```

mod bf16_decode;
#[cfg(feature = "sim")]
mod chain;
mod copy;
mod cosine_top_k;
mod cpu;
mod error;
mod exact;
mod fill;
mod grid;
mod load;
mod metric;
mod reduce;
#[cfg(feature = "sim")]
mod reference;
mod saxpy;
mod scale;
#[cfg(feature = "sim")]
pub mod sim;
mod workspace;

pub use bf16_decode::Bf16Decode;
pub use copy::CopyKernels;
pub use cosine_top_k::{
    CosineTopK, Scalar, TargetScalar, TopKShape, cosine_top_k_cpu, row_inverse_norms_cpu,
};
pub use cpu::{reduce_sum_cpu, saxpy_cpu, scale_cpu};
pub use error::{KernelError, Result};
pub use exact::{
    CpuTargets, ExactTopK, Filter, FilterKernels, Format, Path, PiecewiseTargets, PreparedTargets,
    SearchBuffers, SearchCounts,
};
pub use fill::{Fill, FillElement};
pub use metric::Metric;
pub use reduce::Reduce;
pub use saxpy::Saxpy;
pub use scale::Scale;
