//! Safe CUDA Unified Memory: one buffer and one pointer for the CPU and the GPU.
//!
//! ```
//! use cuda_um::{Advice, Location, Runtime, UnifiedBuffer};
//!
//! // On a GPU: `Runtime::open()?`. Here, the simulator's table of functions:
//! let runtime = Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?;
//! let device = runtime.device(0)?;
//! let stream = device.stream()?;
//!
//! let mut data = UnifiedBuffer::<f32>::zeroed(&device, 1 << 20)?;
//! data.host_mut()?.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32); // the CPU writes in place
//! data.advise(Advice::SetPreferredLocation(Location::from(&device)))?;
//! data.prefetch(Location::from(&device), &stream)?; // so that no kernel on `stream` faults
//! // … launch kernels, which take `&data` or `&mut data` …
//! assert_eq!(data.host()?[7], 7.0); // waits for just the work that writes `data`
//! data.close()?;
//! # Ok::<(), cuda_um::Error>(())
//! ```
//!
//! # What is where
//!
//! - [`Runtime`], [`Device`] with its [`Capabilities`], [`Stream`], [`Event`].
//! - Buffers: [`UnifiedBuffer`] (managed or mapped memory), [`DeviceBuffer`], [`PinnedBuffer`], [`RegisteredBuffer`].
//! - [`AccessPattern`] and [`Placement`]: what memory a unified buffer has.
//! - [`UnifiedPool`], [`PinnedPool`], [`DevicePool`]: buffers of each kind without a call to CUDA for each, for those who allocate often.
//! - Where managed memory lives: [`Advice`], [`Location`], [`UnifiedBuffer::prefetch`], [`PrefetchBatch`], [`Residency`], [`RangeAttributes`].
//! - Kernels: [`Module`], [`Kernel`], [`LaunchConfig`], [`KernelArg`].
//!
//! # What the library orders
//!
//! Every buffer knows the work that uses it: which stream, up to where. From that
//!
//! - host guards ([`UnifiedBuffer::host`] and its kin) wait for just that work;
//! - work on another stream runs after it, where the two must not overlap;
//! - a drop never frees memory in use, and never waits for work that was enqueued through this [`Runtime`]: a thread frees it later
//!   ([`Runtime::reclaim`]).
//!
//! Work that is enqueued past the library, through [`Stream::as_raw`], no buffer knows of.
//!
//! # Threads, processes, tracing
//!
//! All types are `Send` and `Sync`, but host guards stay on their thread. Allocations, frees, prefetches, advice, launches and host
//! guards are [`tracing`] events of the target `cuda_um` at the level DEBUG, within spans of the operations: `docs/observing.md` lists
//! their fields. The feature `profile` collects traces.
//!
//! A child made by `fork` cannot use CUDA, and has no managed memory. There, what the parent had made refuses every CUDA call
//! ([`Error::Forked`]), and dropping it does nothing; a guard that the child inherits must not be read. A process may end with buffers
//! alive: the driver takes all memory back.

mod advice;
mod call;
mod capability;
#[cfg(test)]
mod cases;
mod device;
mod driver_state;
mod error;
mod event;
mod fork;
mod gate;
mod launch;
mod location;
mod memory;
mod module;
mod observe;
mod placement;
mod pool;
mod prefetch;
#[cfg(feature = "profile")]
pub mod profile;
mod reclaim;
// Not in `reclaim`: `tests/loom` compiles that with other locks.
#[cfg(test)]
mod reclaim_tests;
mod residency;
mod runtime;
mod stream;
mod sync;
mod telemetry;
mod transfer;
mod unblock;

pub use advice::Advice;
pub use call::MemoryInfo;
pub use capability::Capabilities;
pub use device::Device;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use launch::{Arguments, KernelArg, KernelArgs, LaunchConfig, ReadArg, WriteArg};
pub use location::Location;
pub use memory::any::Memory;
pub use memory::device::DeviceBuffer;
pub use memory::element::Element;
pub use memory::guard::{HostMut, HostRef};
pub use memory::overwrite::{Filled, Slots};
pub use memory::pinned::PinnedBuffer;
pub use memory::registered::RegisteredBuffer;
pub use memory::unified::{Oversubscription, UnifiedBuffer, UnifiedOptions};
pub use memory::view::{View, ViewMut};
pub use module::{Kernel, KernelAttributes, Module};
pub use placement::{AccessPattern, Placed, Placement};
pub use pool::{DevicePool, PinnedPool, PoolOptions, PoolStats, UnifiedPool};
pub use prefetch::{PrefetchBatch, prefetch_all};
pub use residency::{RangeAttributes, Residency};
pub use runtime::{Runtime, RuntimeVersion};
pub use stream::Stream;
pub use transfer::TransferOptions;
#[doc(hidden)]
pub use unblock::unblock;

/// What things cost on a machine.
pub use cuda_um_cost as cost;
/// The functions and types of CUDA itself.
pub use cuda_um_sys as sys;
