//! Devices, streams, and the order of the work on them.

mod adopt;
pub(crate) mod capability;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod drain;
pub(crate) mod driver_state;
pub(crate) mod event;
pub(crate) mod exclusion;
pub(crate) mod foreign_owner;
pub(crate) mod non_concurrent;
pub(crate) mod observer;
pub(crate) mod op;
pub(crate) mod reclaim;
pub(crate) mod runtime;
pub(crate) mod slot;
pub(crate) mod stream;
mod streams;
pub(crate) mod submit;
pub(crate) mod together;
pub(crate) mod tracked;
pub(crate) mod tracker;
pub(crate) mod uses;
