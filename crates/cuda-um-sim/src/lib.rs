//! A CUDA runtime in software: managed memory, streams and kernels with no GPU.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "cuda-um-sim runs on Linux alone: it sees the host's touches of managed memory through memfd, mprotect and SIGSEGV"
);

mod builder;
mod check;
mod counters;
mod engine;
mod entry;
mod fault;
mod host_fault;
mod kernel;
mod preset;
mod ptx;
mod sim;
mod slot;
mod trace;

pub use builder::{Builder, SimError};
pub use check::{Leak, Misuse};
pub use counters::Counters;
pub use engine::CostModel;
pub use fault::Fail;
pub use kernel::{LaunchContext, Twin, TwinError, register_kernel};
pub use preset::{CudaVersion, Gpu};
pub use sim::{PauseGuard, Sim};
pub use trace::CallRecord;
