//! The memory of unified buffers; prefetches of many buffers; memory that was exchanged, or that does not match its buffer.

mod host;
mod lying;
mod machines;
mod placement;
mod unruly;
