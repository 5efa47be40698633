//! What memory unified buffers have: by pattern, from a pool; and prefetches of many at once.

#[path = "../support/mod.rs"]
mod support;

mod batch;
mod pattern;
mod pool;
