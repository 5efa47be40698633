//! Devices, streams, and the order of the work on them.

mod adopt;
mod attached;
pub(crate) mod capability;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod drain;
pub(crate) mod driver_state;
pub(crate) mod enqueue;
pub(crate) mod event;
pub(crate) mod exclusion;
pub(crate) mod foreign_owner;
mod held_pools;
mod last;
#[cfg_attr(
    not(feature = "profile"),
    allow(dead_code, reason = "the profiler is the only observer")
)]
mod listeners;
pub(crate) mod non_concurrent;
#[cfg_attr(
    not(feature = "profile"),
    allow(dead_code, reason = "the profiler is the only observer")
)]
pub(crate) mod observer;
pub(crate) mod peer_access;
#[cfg_attr(
    not(feature = "auto-prefetch"),
    allow(dead_code, reason = "automatic prefetch is the only planner")
)]
pub(crate) mod planner;
pub(crate) mod reclaim;
#[cfg(all(test, not(cuda_um_loom)))]
mod reclaim_tests;
pub(crate) mod runtime;
pub(crate) mod slot;
pub(crate) mod stream;
pub(crate) mod stream_handle;
mod streams;
pub(crate) mod together;
#[cfg_attr(
    not(feature = "profile"),
    allow(dead_code, reason = "the profiler is the only observer")
)]
pub(crate) mod tracked;
pub(crate) mod tracker;
pub(crate) mod uses;
