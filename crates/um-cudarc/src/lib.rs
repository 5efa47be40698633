//! Unified memory of cuda-um for programs that use [cudarc](https://docs.rs/cudarc).
//!
//! - [`SharedDevice`] joins a context of cudarc with a device of cuda-um, and [`SharedStream`] a stream.
//! - [`UnifiedSlice`] is a [`UnifiedBuffer`](cuda_um::UnifiedBuffer) that cudarc's functions take: launches, copies, cuBLAS. The host reads and
//!   writes it in place, after cudarc's work.
//! - [`SharedStream::give`] makes a plain `CudaSlice` in managed memory of the driver's pool, which cudarc frees itself;
//!   [`SharedDevice::host`], [`SharedDevice::host_mut`] and [`SharedDevice::with_mut`] use it in place.
//! - [`SharedDevice::take_device`] and [`SharedDevice::take_unified`] make a buffer of a `CudaSlice`.
//! - [`SharedStream::memcpy_htod_staged`] copies pageable memory to any memory of cudarc at the speed of cuda-um's copies, and
//!   [`SharedStream::read_file`] a file.
//!
//! ```no_run
//! use cuda_um::{Location, Runtime, UnifiedBuffer};
//! use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
//! use cudarc::driver::CudaContext;
//! use um_cudarc::SharedDevice;
//!
//! # fn multiply(config: GemmConfig<f32>, n: usize) -> Result<(), Box<dyn std::error::Error>> {
//! let context = CudaContext::new(0)?;
//! let shared = SharedDevice::new(&context, &Runtime::open()?)?;
//! let stream = shared.adopt(&context.default_stream())?;
//! let blas = CudaBlas::new(context.default_stream())?;
//!
//! let mut a = stream.share(UnifiedBuffer::<f32>::zeroed(shared.device(), n * n)?)?;
//! let b = stream.share(UnifiedBuffer::<f32>::zeroed(shared.device(), n * n)?)?;
//! let mut c = stream.share(UnifiedBuffer::<f32>::zeroed(shared.device(), n * n)?)?;
//! a.host_mut()?[0] = 1.0; // in place
//! a.prefetch_on(Location::from(shared.device()), stream.ours())?;
//! // SAFETY: the matrices have n × n elements.
//! unsafe { blas.gemm(config, &a, &b, &mut c) }?;
//! println!("{}", c.host()?[0]); // waits for cuBLAS
//! c.with_mut(|mut elements| elements.fill(0.5))?; // every method of a view of cuda-um
//! let ours: UnifiedBuffer<f32> = c.into_buffer()?;
//! let given = stream.give(ours).map_err(|(_, error)| error)?; // to cudarc, if it is memory of a `DriverPool`
//! let ours = shared.take_unified(given)?;
//!
//! let mut theirs = stream.theirs().alloc_zeros::<f32>(n)?;
//! stream.memcpy_htod_staged(&[1.0; 10], &mut theirs)?; // faster than `memcpy_htod` of memory that is not pinned
//! stream.read_file(&std::fs::File::open("weights")?, 4096, &mut theirs)?;
//! shared.with_mut(&mut theirs, |mut elements| elements.fill(0.5))?;
//! let ours = shared.take_device(theirs)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Ordering
//!
//! cudarc orders its work by the events of its slices (its event tracking) if the context has several streams, and otherwise by the one stream.
//! This crate orders the work of both libraries in the same way: it waits for these events, and without event tracking for the context. What
//! cudarc does not order is not ordered here, either: a slice's events know its last reader only, and a context whose streams were all dropped
//! does not wait for events.
//!
//! # What this crate does not do
//!
//! It gives no `&mut CudaSlice` of a buffer: a caller could swap it with a slice that cudarc frees. Functions of cudarc that take `&mut CudaSlice`
//! and not a trait get a `CudaViewMut`, or cannot be used. Streams must not be captured into a graph.

mod error;
mod order;
mod plain;
mod shared;
mod slice;
mod staged;

pub use error::{Error, Result};
pub use shared::{SharedDevice, SharedStream};
pub use slice::UnifiedSlice;
pub use staged::CudarcMemory;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
