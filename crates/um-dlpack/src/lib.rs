#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

/// Not those of loom, which `tests/loans.rs` uses.
mod atomic {
    pub(crate) use std::sync::atomic::*;
}
mod buffer;
mod dtype;
mod error;
mod export;
mod foreign_host;
mod import;
mod layout;
mod loans;
mod order;
mod returns;

pub use buffer::DlpackBuffer;
/// The crate of DLPack's C structs, and of the owning handle [`Managed`](dlpark::Managed) that imports take and exports return.
pub use dlpark;
/// Handles of tensors since DLPack 1.0, and from before.
pub use dlpark::{legacy, versioned};
pub use dtype::{from_dlpack, to_dlpack};
pub use error::{Error, Result};
pub use export::{ExportOptions, Target};
pub use import::{Imported, import, import_owned};
pub use order::ConsumerOrder;
pub use returns::settle;
