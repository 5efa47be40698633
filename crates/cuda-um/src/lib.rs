//! Safe CUDA Unified Memory: one buffer and one pointer for the CPU and the GPU.
//!
//! ```
//! use cuda_um::{Advice, Location, Runtime, UnifiedBuffer};
//!
//! // On a GPU: `Runtime::open()?`. Here, the simulator's table of functions:
//! let runtime = Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?;
//! let device = runtime.device(0)?;
//! let stream = device.create_stream()?;
//!
//! let mut data = UnifiedBuffer::<f32>::zeroed(&device, 1 << 20)?;
//! data.host_mut()?.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32); // the CPU writes in place
//! data.advise(Advice::SetPreferredLocation(Location::from(&device)))?;
//! data.prefetch_on(Location::from(&device), &stream)?; // so that no kernel on `stream` faults
//! // … launch kernels, which take `&data` or `&mut data` …
//! assert_eq!(data.host()?[7], 7.0); // waits for just the work that writes `data`
//! data.close()?;
//! # Ok::<(), cuda_um::Error>(())
//! ```
//!
//! # Overview
//!
//! - [`Runtime`], [`Device`] with its [`Capabilities`], [`Stream`], [`Event`].
//! - Buffers: [`UnifiedBuffer`] (managed or mapped memory), [`DeviceBuffer`], [`PinnedBuffer`], [`RegisteredBuffer`]; each is a [`Memory`].
//! - Parts of buffers: [`View`], [`ViewMut`], with the methods of buffers. Host guards: [`HostRef`], [`HostMut`].
//! - The memory of a unified buffer: [`AccessPattern`], [`Placement`]; vectors and mapped files: [`UnifiedBuffer::from_vec`],
//!   [`UnifiedBuffer::map_file`], [`resource::UnifiedMemory`]; [`Pool`].
//! - Managed memory: [`Advice`], [`Location`], [`UnifiedBuffer::prefetch`], [`managed::PrefetchBatch`].
//! - Kernels: [`Module`], [`Kernel`], [`LaunchConfig`], [`kernel::KernelArg`]. Recorded work: [`graph`].
//!
//! The modules have what fewer programs name: [`resource`], [`mod@kernel`], [`buffer`], [`managed`], and [`observe`] (observers of each operation).
//!
//! # Ordering
//!
//! Every buffer tracks the work that uses it: the streams, and the position on each. Therefore
//!
//! - host guards ([`UnifiedBuffer::host`] and similar methods) wait only for that work;
//! - work on another stream runs after it, if the two must not overlap;
//! - a drop never frees memory in use, and never waits for work that was enqueued through this [`Runtime`]: it is freed later
//!   ([`Runtime::reclaim`]).
//!
//! Work enqueued directly through [`Stream::as_raw`] is not tracked.
//!
//! # Threads, processes, tracing
//!
//! All types are `Send` and `Sync`, except host guards, which stay on their thread. Operations emit [`tracing`] events with the target `cuda_um` at
//! the level DEBUG: `docs/observing.md` lists their fields. `um-profile` and `um-auto` (automatic prefetch) are crates over [`observe`].
//!
//! In a child made by `fork` every CUDA call, work, guard and allocation is refused ([`Error::Forked`]), and dropping the parent's objects does
//! nothing; it must not read through an inherited guard. A process may end with live buffers: the driver frees all memory.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Floor 0: no CUDA. `cargo xtask floors` has the floor of each module; a file imports only from lower floors.
#[cfg(all(test, not(cuda_um_loom)))]
mod cases;
mod element;
mod error;
pub mod fork;
#[macro_use]
mod label;
pub mod process_end;
#[doc(hidden)]
pub mod range;
mod scalar;
mod sync;
mod telemetry;
mod unblock;
#[cfg(all(windows, not(miri)))]
mod windows;

// Floor 1 and above.
pub mod buffer;
mod context;
mod driver;
pub mod graph;
pub mod kernel;
pub mod managed;
#[cfg(all(test, cuda_um_loom))]
#[path = "../tests/loom/mod.rs"]
mod models;
pub mod observe;
pub mod resource;

#[doc(hidden)]
pub use buffer::host_vec;
#[doc(hidden)]
pub use context::reclaim::on_deferred_imports;
#[doc(hidden)]
pub use unblock::{Contained, unblock};

pub use buffer::guard::{HostMut, HostRef};
pub use buffer::kind::{DeviceBuffer, PinnedBuffer};
pub use buffer::memory::Memory;
pub use buffer::registered::RegisteredBuffer;
pub use buffer::unified::{UnifiedBuffer, UnifiedOptions};
pub use buffer::view::{View, ViewMut};
pub use context::capability::Capabilities;
pub use context::device::Device;
pub use context::devices::Devices;
pub use context::event::Event;
pub use context::non_concurrent::NonConcurrentAccess;
pub use context::runtime::Runtime;
pub use context::stream::Stream;
pub use context::together::together;
pub use driver::advice::Advice;
pub use driver::location::Location;
pub use element::DeviceCopy;
pub use error::{Error, ErrorKind, Result};
pub use kernel::launch::LaunchConfig;
pub use kernel::module::{Kernel, Module};
pub use resource::kind::{MemoryKind, Oversubscription};
pub use resource::placement::{AccessPattern, Placement};
pub use resource::pool::{Pool, PoolOptions};
pub use scalar::{Scalar, constant};

/// The cost model: prices of copies, migrations and page faults.
pub use cuda_um_cost as cost;
/// The functions and types of CUDA.
pub use cuda_um_sys as sys;
