//! What a tensor framework builds on: backends that share a runtime, pools, erased buffers, host access, ranges, files, streams, launches.

#[path = "../support/mod.rs"]
mod support;

mod erased;
mod files;
mod host;
mod launch;
mod ranges;
mod runtime;
mod streams;
