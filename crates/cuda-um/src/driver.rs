//! The only caller of the function table.
//!
//! Every call goes through [`Api`]: it refuses it in a child of `fork`, makes the device current for the call and gives the caller's
//! back, names the call and its subject in the error, and clears the runtime's last error. A function that takes pointers or handles is `unsafe` here, and
//! the modules that own the pointers discharge that.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

pub(crate) mod advice;
mod api;
mod check;
mod current;
mod device;
pub(crate) mod location;
mod managed;
mod memory;
mod mempool;
mod module;
mod stream;

pub(crate) use crate::driver::api::Api;
pub(crate) use crate::driver::check::host_memory;
pub use crate::driver::device::MemoryInfo;
pub(crate) use crate::driver::memory::CopyKind;
