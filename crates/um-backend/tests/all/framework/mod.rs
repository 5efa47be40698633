//! What a tensor framework builds on: backends that share a runtime, pools, erased buffers, host access, shared storage,
//! ranges, files, streams, launches.

mod erased;
mod files;
mod graphs;
mod host;
mod launch;
mod ranges;
mod runtime;
mod sharded;
mod shared;
mod shared_async;
mod shared_threads;
mod streams;
