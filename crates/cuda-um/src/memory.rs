//! Buffers of every kind of memory, and the way to the host's view of them.

#[macro_use]
mod methods;
pub(crate) mod access;
pub(crate) mod any;
pub(crate) mod backing;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod element;
pub(crate) mod fill;
pub(crate) mod guard;
mod host_access;
pub(crate) mod host_async;
pub(crate) mod host_vec;
mod id;
pub(crate) mod in_flight;
pub(crate) mod label;
pub(crate) mod overwrite;
pub(crate) mod pinned;
pub(crate) mod range;
pub(crate) mod raw;
pub(crate) mod registered;
pub(crate) mod settle;
pub(crate) mod unified;
pub(crate) mod view;
