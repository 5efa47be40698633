//! What a tensor framework builds on: backends that share a runtime, pools, erased buffers, host access, shared storage,
//! ranges, files, streams, launches.

mod allocator;
mod erased;
mod graphs;
mod operations;
mod runtime;
mod sharded;
mod shared;
mod shared_async;
mod shared_threads;
