//! The tests of the library, one module for each subject. Tests with a process of their own are beside this folder: they fork, end the process,
//! have an allocator or a subscriber for all threads, or take long.

mod arena;
mod arguments;
mod bad_input;
mod buffers;
mod claims;
mod devices;
mod errors;
mod executors;
mod foreign;
mod gate;
mod graph;
mod in_flight;
mod observe;
mod placement;
mod pool;
mod residency;
mod resources;
mod system_memory;
mod transfer;
mod unwind;
mod views;
mod waits;
