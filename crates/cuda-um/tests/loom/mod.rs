//! Models.
pub(crate) mod checker;
pub(crate) mod engine;
mod frees;
mod host_and_device;
mod in_flight;
pub(crate) mod machine;
mod streams;
mod table;
