//! A CUDA runtime in software: managed memory, streams and kernels with no GPU.
//!
//! - [`Sim`] is a simulated machine: build it with [`Sim::builder`] or [`Sim::from_env`].
//! - [`Sim::table`] is its runtime: a [`cuda_um_sys::Table`], as the loader makes it from a real libcudart.
//! - Kernels run from their PTX, and are checked while they run ([`Builder::kernel_checks`]).
//! - [`Sim::counters`], [`Sim::now`], [`Sim::trace`], [`Sim::misuse`] and [`Sim::leaks`] report on the program under test; [`Sim::fail`]
//!   makes a call fail; [`Sim::pause`] holds the streams.
//!
//! # Contract
//! - Up to 16 simulators can exist in a process at the same time; they share nothing.
//! - Host code touches managed memory through the one pointer, as on a machine with a GPU. A handler of `SIGSEGV` sees the touch, and
//!   passes faults at other addresses to the handler that was installed before. A handler that is installed later must pass on the faults
//!   that are not its own, too.
//! - A call that CUDA documents as asynchronous returns before its work has run.
//! - If the program does something that CUDA forbids, the simulator refuses it, records a [`Misuse`], or ends the process, as a GPU would.
//! - Safe code cannot make the simulator break the promises of a driver: an injected failure cannot return success.
//! - Foreign code (`tracing` subscribers, host functions, panic payloads) runs while no lock of the simulator is held.
//!
//! It runs only on Linux, where it sees the host's touches of managed memory through `memfd_create`, `mprotect` and `SIGSEGV`. On other systems it
//! compiles, and [`Builder::build`] fails.
//!
//! This crate measures no real time. The fidelity notes in the repository list every departure from CUDA.
//!
//! # Examples
//! A kernel, a launch, and the bytes that it moved:
//!
//! ```
//! use std::ptr::null_mut;
//! use cuda_um_sim::Sim;
//! use cuda_um_sys::cudaError;
//!
//! const PTX: &std::ffi::CStr = c"
//!     .version 6.4
//!     .target sm_60
//!     .address_size 64
//!     .visible .entry add_one(.param .u64 data, .param .u64 len) {
//!         .reg .pred %done;
//!         .reg .b32 %r<3>;
//!         .reg .b64 %index, %data, %len;
//!         ld.param.u64 %data, [data];
//!         ld.param.u64 %len, [len];
//!         mov.u32 %r0, %ctaid.x;
//!         mov.u32 %r1, %ntid.x;
//!         mov.u32 %r2, %tid.x;
//!         mad.lo.u32 %r0, %r0, %r1, %r2;
//!         cvt.u64.u32 %index, %r0;
//!         setp.ge.u64 %done, %index, %len;
//!         @%done ret;
//!         mad.lo.u64 %data, %index, 4, %data;
//!         ld.global.u32 %r0, [%data];
//!         add.u32 %r0, %r0, 1;
//!         st.global.u32 [%data], %r0;
//!         ret;
//!     }";
//!
//! let sim = Sim::builder().build()?;
//! let table = sim.table();
//! let driver = table.driver()?;
//! let len = 1024_usize;
//! let (mut data, mut module, mut function) = (null_mut(), null_mut(), null_mut());
//!
//! // SAFETY: every pointer is valid for its call; the kernel's arguments have the sizes that the PTX declares; the host does not touch
//! // the memory while the kernel runs.
//! unsafe {
//!     assert_eq!((table.cudaMallocManaged)(&mut data, len * 4, 1), cudaError::cudaSuccess);
//!     std::slice::from_raw_parts_mut(data.cast::<u32>(), len).fill(41);
//!
//!     assert_eq!((driver.cuModuleLoadData)(&mut module, PTX.as_ptr().cast()).0, 0);
//!     assert_eq!((driver.cuModuleGetFunction)(&mut function, module, c"add_one".as_ptr()).0, 0);
//!     let mut arguments = [(&raw mut data).cast(), (&raw const len).cast_mut().cast()];
//!     let launched = (driver.cuLaunchKernel)(function, 4, 1, 1, 256, 1, 1, 0, null_mut(), arguments.as_mut_ptr(), null_mut());
//!     assert_eq!(launched.0, 0);
//!     assert_eq!((table.cudaDeviceSynchronize)(), cudaError::cudaSuccess);
//!     assert_eq!(*data.cast::<u32>(), 42);
//! }
//!
//! let counters = sim.counters();
//! assert_eq!((counters.gpu_faults, counters.bytes_to_device, counters.bytes_to_host), (1, 4096, 4096));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only the handler of faults uses it")
)]

mod builder;
mod call_log;
mod counters;
mod engine;
mod entry;
mod error;
mod failing_call;
#[cfg_attr(not(target_os = "linux"), path = "host_fault_unsupported.rs")]
mod host_fault;
mod inject;
mod misuse;
mod preset;
mod sim;
mod slot;
// The sanitizer of threads and Miri define the same functions.
#[cfg(all(target_os = "linux", not(thread_sanitizer), not(miri)))]
mod system_call;

pub use builder::Builder;
pub use call_log::CallRecord;
pub use counters::Counters;
pub use cuda_um_cost::CostModel;
// For um-backend's tests, and for the Python package.
#[doc(hidden)]
pub use entry::is_in_call;
pub use error::SimError;
#[doc(hidden)]
pub use host_fault::keep_fault_handler;
pub use inject::Fail;
pub use misuse::{Leak, Misuse};
pub use preset::{CudaVersion, Cupti, Gpu, KernelChecks, Topology};
pub use sim::{HoldGuard, PauseGuard, Sim};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
