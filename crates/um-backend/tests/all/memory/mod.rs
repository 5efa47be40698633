//! The memory of unified buffers: by pattern, from a pool; prefetches of many buffers; memory that was exchanged, or that does not match
//! its buffer.

mod argument;
mod batch;
mod cost_model;
mod files;
mod host;
mod lying;
mod machines;
mod pattern;
mod pool;
mod unruly;
