//! The function table of a runtime.

use crate::error::Result;
use crate::fork::Origin;
use crate::sync::Mutex;
use cuda_um_sys as sys;
use std::sync::Arc;

/// The function table of one runtime.
pub(crate) struct Api {
    pub(super) table: Arc<sys::Table>,
    /// The process that it works in.
    pub(crate) origin: Origin,
    /// The devices that a stream was made on: from then on one that is not there any more is lost.
    pub(super) worked: Mutex<Vec<u32>>,
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
}
