//! The only caller of the function table.
//!
//! Every call is a method of [`Api`], which refuses calls in a child made by `fork` (unless an [`OnStream`] says that this was done), makes the
//! device current and restores the caller's device afterwards, names the call and its subject in the error, and clears the runtime's last error. Most methods are entries of tables
//! (`call::calls`). A function that takes pointers or handles is `unsafe` here; the modules that own them guarantee that they are valid.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

pub(crate) mod advice;
mod api;
mod call;
pub(crate) mod captures;
mod check;
mod device;
pub(crate) mod foreign;
pub(crate) mod graph;
pub(crate) mod location;
mod managed;
mod memory;
pub(crate) mod mempool;
pub(crate) mod module;
pub(crate) mod owned;
mod peers;
mod stream;

pub(crate) use crate::driver::api::Api;
pub(crate) use crate::driver::call::OnStream;
pub(crate) use crate::driver::check::host_memory;
pub use crate::driver::device::MemoryInfo;
pub(crate) use crate::driver::memory::CopyKind;
