#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

pub mod allocator;
mod backend;
#[macro_use]
mod buffer;
mod captured;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod device;
pub mod dtype;
mod erased;
mod error;
mod host_buffer;
mod host_bytes;
mod kernel_arg;
pub mod memory;
mod operations;
mod promised;
mod runtime;
mod settings;
mod sharded;
mod shared;
mod text;
mod transfer;
mod typed;

pub use backend::{BufferKind, CudaBackend};
pub use buffer::Buffer;
pub use captured::CapturedStep;
pub use config::CudaBackendConfig;
pub use device::CudaDevice;
pub use dtype::{DType, Element};
pub use erased::ErasedBuffer;
pub use error::{CudaError, Result};
pub use host_buffer::HostBuffer;
pub use promised::CudaFeature;
pub use runtime::RuntimeChoice;
pub use sharded::{Sharded, Split};
pub use shared::{SharedBuffer, SharedRead, SharedWrite};

#[cfg(doctest)]
/// Borrows that would become longer, and types of elements that would change behind a view that writes.
/// ```compile_fail
/// use um_backend::memory::*;
/// fn memory<'s, 'l: 's>(of: BufferMemory<'s, u8>) -> BufferMemory<'l, u8> { of }
/// ```
/// ```compile_fail
/// use um_backend::memory::*;
/// fn memory_mut<'s, 'l: 's>(of: BufferMemoryMut<'s, u8>) -> BufferMemoryMut<'l, u8> { of }
/// ```
/// ```compile_fail
/// use um_backend::memory::*;
/// fn elements<'a, 's, 'l: 's>(of: BufferMemoryMut<'a, &'l u8>) -> BufferMemoryMut<'a, &'s u8> { of }
/// ```
struct Variance;

/// The safe layer below, for kernels, streams and memory resources.
pub use cuda_um;
/// The buffers, guards and hints of the safe layer below.
pub use cuda_um::{
    Advice, Device, DeviceBuffer as CudaBuffer, HostMut, HostRef, Location, PinnedBuffer, Stream,
    UnifiedBuffer,
    managed::{HintOutcome, MemoryAdvice, PrefetchBatch},
};
/// The simulator: a CUDA runtime in software.
#[cfg(feature = "sim")]
pub use cuda_um_sim as sim;
/// Elements: `f16` and `bf16`.
pub use half;
/// The kernels of um-kernels.
#[cfg(feature = "kernels")]
pub use um_kernels as kernels;
/// Traces of migrations, page faults, kernels and operations.
#[cfg(feature = "profile")]
pub use um_profile as profile;
