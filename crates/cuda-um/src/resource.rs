//! Memory: where it comes from, the work that uses it, and where it goes back to. Nothing here knows the type of an element.

pub(crate) mod allocation;
pub(crate) mod backing;
pub(crate) mod cache;
pub(crate) mod device;
pub(crate) mod host_access;
mod id;
pub(crate) mod kind;
pub(crate) mod managed;
pub(crate) mod memory_resource;
pub(crate) mod pinned;
pub(crate) mod pool;
