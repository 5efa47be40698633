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

// Floor 0: no CUDA. `floors.toml` lists which file is on which floor; an import goes to a lower floor only.
#[cfg(test)]
mod cases;
mod element;
mod error;
mod fork;
mod label;
#[doc(hidden)]
pub mod range;
mod sync;
mod telemetry;
mod unblock;

// From floor 1 on upwards.
mod buffer;
mod context;
mod driver;
mod kernel;
mod managed;
#[cfg(feature = "profile")]
pub mod profile;
mod resource;

pub use buffer::any::Memory;
pub use buffer::device::DeviceBuffer;
pub use buffer::guard::{HostMut, HostRef};
#[doc(hidden)]
pub use buffer::host_vec;
pub use buffer::overwrite::{Filled, Slots};
pub use buffer::pinned::PinnedBuffer;
pub use buffer::placement::{AccessPattern, Placed, Placement};
pub use buffer::registered::RegisteredBuffer;
pub use buffer::transfer::TransferOptions;
pub use buffer::unified::{UnifiedBuffer, UnifiedOptions};
pub use buffer::view::{View, ViewMut};
pub use context::capability::Capabilities;
pub use context::device::Device;
pub use context::event::Event;
pub use context::runtime::{Runtime, RuntimeVersion};
pub use context::stream::Stream;
pub use driver::MemoryInfo;
pub use driver::advice::Advice;
pub use driver::location::Location;
pub use element::Element;
pub use error::{Error, ErrorKind, Result};
pub use kernel::argument::{KernelArg, KernelArgs, ReadArg, WriteArg};
pub use kernel::arguments::Arguments;
pub use kernel::launch::LaunchConfig;
pub use kernel::module::{Kernel, KernelAttributes, Module};
pub use managed::batch::{PrefetchBatch, prefetch_all};
pub use managed::residency::{RangeAttributes, Residency};
pub use resource::device::DeviceMemory;
pub use resource::kind::{MemoryKind, Oversubscription};
pub use resource::managed::ManagedMemory;
pub use resource::memory_resource::MemoryResource;
pub use resource::pinned::PinnedMemory;
pub use resource::pool::{DevicePool, PinnedPool, PoolOptions, PoolStats, UnifiedPool};
#[doc(hidden)]
pub use unblock::unblock;

/// What things cost on a machine.
pub use cuda_um_cost as cost;
/// The functions and types of CUDA itself.
pub use cuda_um_sys as sys;
