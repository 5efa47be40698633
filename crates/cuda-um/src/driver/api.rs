//! The function table of a runtime, with its state.

use crate::driver::mempool::SparePool;
use crate::error::{Error, Result};
use crate::fork;
use crate::sync::Mutex;
use cuda_um_sys as sys;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Api {
    pub(super) table: Arc<sys::Table>,
    /// Bit n is set if a stream was made on device n. If such a device is later reported missing, it is lost.
    pub(super) worked: AtomicU64,
    /// True if the driver has one device: it is current in every thread, so it need not be queried.
    // Relaxed: a thread that does not see it asks the driver for the current device once more.
    pub(super) has_one_device: AtomicBool,
    /// Bit n is set for an integrated device n, whose memory is the host's.
    // Relaxed: the device that is opened is published with synchronization of its own.
    integrated: AtomicU64,
    pub(super) spare_pools: Mutex<Vec<SparePool>>,
}

impl Drop for Api {
    fn drop(&mut self) {
        fork::released(|| self.destroy_spare_pools());
    }
}

impl Api {
    pub(crate) fn new(table: Arc<sys::Table>) -> Arc<Self> {
        Arc::new(Self {
            table,
            worked: AtomicU64::new(0),
            has_one_device: AtomicBool::new(false),
            integrated: AtomicU64::new(0),
            spare_pools: Mutex::default(),
        })
    }

    /// Stores that the memory of a device is the host's.
    pub(crate) fn has_host_memory(&self, ordinal: u32) {
        self.integrated.fetch_or(bit(ordinal), Ordering::Relaxed);
    }

    pub(super) fn is_integrated(&self, ordinal: u32) -> bool {
        self.integrated.load(Ordering::Relaxed) & bit(ordinal) != 0
    }

    /// Declares to the simulator that the host accesses memory of its own, which kernels use, too.
    pub(crate) fn declare_host_access(&self, range: Range<*mut u8>, writes: bool) {
        if let Some(declare) = self.table.declared_host_access()
            && range.start < range.end
        {
            let bytes = range.end.addr() - range.start.addr();
            // SAFETY: the function is the simulator's, which touches no memory.
            unsafe { declare(range.start.cast_const().cast(), bytes, writes) }
        }
    }

    /// A function that not every table has.
    #[inline]
    pub(super) fn late<F>(&self, name: &str, function: Option<F>) -> Result<F> {
        function.ok_or_else(|| self.missing_function(name))
    }

    #[cold]
    pub(super) fn missing_function(&self, what: &str) -> Error {
        let needs = match sys::Table::available_since(what) {
            Some(version) => format!("CUDA {version}"),
            None => "a runtime that exports it".to_owned(),
        };
        Error::NotSupported {
            what: what.to_owned(),
            needs,
            have: self.version_text(),
        }
    }

    pub(crate) fn table(&self) -> &Arc<sys::Table> {
        &self.table
    }

    pub(crate) fn version(&self) -> sys::RuntimeVersion {
        self.table.version()
    }

    /// An address that is equal for all tables of one driver, and differs between drivers (and simulators).
    ///
    /// # Errors
    ///
    /// The driver's functions cannot be looked up. There is no fallback: a second runtime over the same driver whose look-up succeeds
    /// would get another identity.
    pub(crate) fn driver_identity(&self) -> Result<usize> {
        // Before the look-up: during a fork, another thread of the parent may have been in it.
        let _call = self.begin("a function of the driver")?;
        Ok(self.table.driver()?.cuLaunchKernel as usize)
    }
}

/// The bit of a device: the last one is for all devices from 63 on.
pub(super) fn bit(ordinal: u32) -> u64 {
    1 << ordinal.min(63)
}
