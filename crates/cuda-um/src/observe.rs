//! Observers of operations: profilers, planners, logs.
//!
//! [`observe()`] installs an [`Observer`]. The crates `um-profile` and `um-auto` are two; `tracing` is told by the same calls. While there is
//! none, an operation costs one relaxed load for it.
//!
//! ```
//! # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
//! use cuda_um::UnifiedBuffer;
//! use cuda_um::observe::{Observer, Op, Told, What, observe};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! #[derive(Default)]
//! struct WrittenBytes(AtomicUsize);
//!
//! impl Observer for WrittenBytes {
//!     fn before(&self, _: &Op<'_>) {}
//!
//!     fn after(&self, told: &Told<'_>) {
//!         let op = told.op;
//!         if let (None, What::Copy | What::Fill) = (told.error, op.what) {
//!             let written = op.parts.iter().filter(|part| part.writes());
//!             self.0.fetch_add(written.map(|part| part.range().len()).sum(), Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! let mut buffer = UnifiedBuffer::<f32>::zeroed(&device, 1000)?;
//! let written = Arc::new(WrittenBytes::default());
//! let observing = observe(written.clone());
//! buffer.fill(2.0)?;
//! drop(observing);
//! buffer.fill(3.0)?;
//! assert_eq!(written.0.load(Ordering::Relaxed), 4000);
//! # Ok::<(), cuda_um::Error>(())
//! ```
//!
//! An observer that calls CUDA itself uses [`fork::check`](crate::fork::check) and [`process_end`](crate::process_end) as the library does, and
//! [`later`] under its own locks.

pub use crate::context::observer::{Observer, Observing, Told, observe};
pub use crate::context::op::{Op, What};
pub use crate::context::tracked::{BufferInfo, Pages, Part, SlabInfo};
pub use crate::sync::{Later, later};
