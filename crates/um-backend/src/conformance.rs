//! A test suite for the contract of [`Buffer`](crate::Buffer), for any implementation.
//!
//! [`all`] checks one implementation, and [`pair`] the copies from one implementation to another. A [`Failure`] has the [`Rule`] and the values.
//!
//! # Examples
//! ```
//! use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, HostBuffer, conformance};
//!
//! fn host(len: usize) -> Result<Box<dyn Buffer<f32>>, CudaError> {
//!     Ok(Box::new(HostBuffer::zeroed(len)?))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
//! let cuda = |len| backend.create::<f32>(BufferKind::Cuda, len);
//!
//! conformance::all(&host)?;
//! conformance::downcasts_to::<HostBuffer<f32>, f32>(&host)?;
//! conformance::all(&cuda)?;
//! conformance::pair(&host, &cuda)?;
//! conformance::pair(&cuda, &host)?;
//! # Ok(())
//! # }
//! ```

mod bounds;
mod check;
mod clone_empty;
mod downcast;
mod failure;
mod files;
mod fill;
mod host;
mod make;
mod order;
mod pairs;
mod properties;
mod ranges;
mod round_trip;
mod sample;
mod streams;
mod threads;
mod try_clone;

pub use downcast::downcasts_to;
pub use failure::{Failure, Rule, Verdict};
pub use make::Make;

use bounds::{lengths_must_match, ranges_must_be_within};
use clone_empty::clone_empty;
use downcast::downcasts;
use files::files;
use fill::{fill, set_zero};
use host::host_access;
use make::LENGTHS;
use order::in_order;
use pairs::{copy_range, copy_whole, pair_bounds, source_is_free};
use properties::{new_holds_zeros, properties};
use ranges::{copy_within, fill_range};
use round_trip::{round_trip, round_trip_at};
use streams::{hints, on_stream};
use threads::other_threads;
use try_clone::try_clone;

use crate::dtype::Element;

/// Checks every rule for one implementation, and for copies between two of its buffers.
///
/// # Errors
/// The first rule that fails.
pub fn all<T: Element>(make: Make<'_, T>) -> Verdict {
    new_holds_zeros(make)?;
    properties(make)?;
    round_trip(make)?;
    round_trip_at(make)?;
    lengths_must_match(make)?;
    ranges_must_be_within(make)?;
    fill(make)?;
    set_zero(make)?;
    fill_range(make)?;
    copy_within(make)?;
    clone_empty(make)?;
    try_clone(make)?;
    host_access(make)?;
    files(make)?;
    on_stream(make)?;
    hints(make)?;
    downcasts(make)?;
    in_order(make)?;
    other_threads(make)?;
    pair(make, make)
}

/// Checks every rule for copies from one implementation to another.
///
/// # Errors
/// The first rule that fails.
pub fn pair<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    copy_whole(target, source)?;
    copy_range(target, source)?;
    source_is_free(target, source)?;
    pair_bounds(target, source)
}
