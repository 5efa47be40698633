//! The only caller of the function table.
//!
//! Every call goes through [`Api`]: it refuses it in a child of `fork`, makes the device current for the call and gives the caller's
//! back, names the call and its subject in the error, and clears the runtime's last error. A function that takes pointers or handles is `unsafe` here, and
//! the modules that own the pointers discharge that.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

pub(crate) mod advice;
mod check;
mod current;
mod device;
pub(crate) mod location;
mod managed;
mod memory;
mod mempool;
mod module;
mod stream;

pub(crate) use crate::driver::check::{Subject, host_memory};
pub use crate::driver::device::MemoryInfo;
pub(crate) use crate::driver::memory::CopyKind;

use crate::error::Result;
use crate::fork::Origin;
use crate::sync::Mutex;
use cuda_um_sys as sys;
use std::sync::Arc;

/// The function table of one runtime.
pub(crate) struct Api {
    table: Arc<sys::Table>,
    /// The process that it works in.
    pub(crate) origin: Origin,
    /// The devices that a stream was made on: from then on one that is not there any more is lost.
    worked: Mutex<Vec<u32>>,
}

impl Api {
    pub(crate) fn new(table: Arc<sys::Table>) -> Arc<Self> {
        Arc::new(Self {
            table,
            origin: Origin::here(),
            worked: Mutex::default(),
        })
    }

    /// The CUPTI of this runtime.
    #[cfg(feature = "profile")]
    pub(crate) fn cupti(&self) -> std::result::Result<Arc<sys::Cupti>, sys::CuptiError> {
        self.table.cupti()
    }

    pub(crate) fn version(&self) -> sys::RuntimeVersion {
        self.table.version()
    }

    /// An address that is the same for every table of one driver, and differs between drivers (and simulators).
    ///
    /// # Errors
    ///
    /// The driver's functions cannot be looked up. There is no other identity to fall back on: a second runtime over the same driver,
    /// whose look-up works, would not have it.
    pub(crate) fn driver_identity(&self) -> Result<usize> {
        Ok(self.driver()?.cuLaunchKernel as usize)
    }

    /// Calls a function of the runtime while device `ordinal` is current.
    fn on(
        &self,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let current = current::Current::set(self, ordinal, name)?;
        self.on_current(current, name, subject, call)
    }

    /// The same for a function that gives something back. If the device cannot be made current, nothing is given back yet, so that is
    /// tried once more: nobody else will.
    fn on_release(
        &self,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let current = current::Current::set_for_release(self, ordinal, name)?;
        self.on_current(current, name, subject, call)
    }

    fn on_current(
        &self,
        current: current::Current<'_>,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let code = call(&self.table);
        let result = self.check(name, code, Some(current.ordinal()), subject);
        drop(current);
        result
    }
}
