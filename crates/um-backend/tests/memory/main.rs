//! What memory unified buffers have: by pattern, from a pool; prefetches of many at once; memory that was exchanged,
//! or is not what its buffer says.

#[path = "../support/mod.rs"]
mod support;

mod batch;
mod exchanged;
mod lying;
mod pattern;
mod pool;
mod unruly;
