//! Public functions called with wrong input: the error names the value and the allowed values, and nothing changes.
//!
//! The tests run only on the simulator, because some cases would oversubscribe a GPU.

mod backend;
mod buffers;
mod environment;
mod erased;
mod make;
mod place;
mod world;
