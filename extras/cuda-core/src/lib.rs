//! Unified memory of cuda-um for programs that use NVIDIA's [cuda-core](https://docs.rs/cuda-core) and [cuTile](https://docs.rs/cutile).
//!
//! - [`SharedContext`] joins a context of cuda-core with a device of cuda-um, and [`SharedStream`] a stream.
//! - [`SharedStream::share`] makes a [`cuda_core::DeviceBuffer`] of a [`UnifiedBuffer`](cuda_um::UnifiedBuffer): an argument of launches, and the
//!   memory of tensors of cuTile.
//! - [`SharedStream::host`], [`SharedStream::host_mut`] and [`SharedStream::with_mut`] use a `DeviceBuffer` in managed memory in place.
//! - [`SharedStream::take_device`] and [`SharedStream::take_unified`] make a buffer of cuda-um of a `DeviceBuffer`.
//!
//! # Ordering
//!
//! cuda-core keeps a list of the accesses of each allocation that safe code has submitted, and refuses one that conflicts with an access of
//! another stream. The functions of this crate are accesses in that list. They wait for conflicting ones, and for all work of their own
//! [`SharedStream`]; so work of `unsafe` launches, which cuda-core does not know, is ordered if it is on that stream.
//!
//! # What this crate does not do
//!
//! It does not order accesses that `unsafe` code makes on other streams. Streams must not be captured into a graph.

/// An element of the buffers of both libraries.
pub trait Element: cuda_um::DeviceCopy + cuda_core::DeviceCopy {}

impl<T: cuda_um::DeviceCopy + cuda_core::DeviceCopy> Element for T {}

mod buffer;
mod error;
mod host;
mod shared;

pub use error::{Error, Result};
pub use host::Host;
pub use shared::{SharedContext, SharedStream};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
