#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod backend;
mod buffer;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod counters;
mod cuda_buffer;
mod device;
mod dtype;
mod error;
mod feature;
mod host_buffer;
mod host_memory;
mod memory;
mod pinned_buffer;
mod placement;
mod prefetch_batch;
mod runtime;
mod transfer;
mod unified_buffer;

pub use backend::{BufferKind, CudaBackend};
pub use buffer::Buffer;
pub use config::CudaBackendConfig;
pub use counters::MigrationCounters;
pub use cuda_buffer::CudaBuffer;
pub use device::{BufferDevice, CudaDevice};
pub use dtype::{DType, Element};
pub use error::{CudaError, Result};
pub use feature::CudaFeature;
pub use host_buffer::HostBuffer;
pub use memory::{BufferMemory, BufferMemoryMut};
pub use pinned_buffer::PinnedBuffer;
pub use placement::{MemoryAdvice, MemoryPlacement, Placement};
pub use prefetch_batch::{PrefetchBatch, Prefetched};
pub use runtime::RuntimeChoice;
pub use unified_buffer::{UnifiedBacking, UnifiedBuffer};

/// Traces of migrations, page faults, kernels and operations.
#[cfg(feature = "profile")]
pub use cuda_um::profile;
pub use cuda_um::{
    AccessPattern, Capabilities, HostMut, HostRef, MemoryInfo, Oversubscription, Placed,
    PoolOptions, PoolStats, RegisteredBuffer, Stream, UnifiedOptions, View, ViewMut,
};
/// The simulator: a CUDA runtime in software.
#[cfg(feature = "sim")]
pub use cuda_um_sim as sim;
