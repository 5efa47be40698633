//! Access of devices to each other's memory.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::{Error, Result};
use crate::process_end::Calls;
use cuda_um_sys::{cudaDeviceP2PAttr, cudaError};

fn pair(from: u32, to: u32) -> Subject {
    Subject::new(format_args!("device {from} and the memory of device {to}"))
}

impl Api {
    /// Returns true if kernels and copies of `from` can access the memory of `to`.
    pub(crate) fn can_access_peer(&self, from: u32, to: u32) -> Result<bool> {
        const CALL: &str = "cudaDeviceCanAccessPeer";
        let _calls = Calls::of(CALL)?;
        let mut can = 0;
        // SAFETY: the pointer is valid for one write; an unknown device is an error.
        let code =
            unsafe { (self.table.cudaDeviceCanAccessPeer)(&mut can, from as i32, to as i32) };
        self.check(CALL, code, Some(from), || pair(from, to))?;
        Ok(can != 0)
    }

    /// Returns true if atomics of `from` work on the memory of `to`; false if the runtime does not report it.
    pub(crate) fn has_peer_atomics(&self, from: u32, to: u32) -> Result<bool> {
        const CALL: &str = "cudaDeviceGetP2PAttribute";
        let Some(function) = self.table.cudaDeviceGetP2PAttribute else {
            return Ok(false);
        };
        let _calls = Calls::of(CALL)?;
        let mut has = 0;
        let attribute = cudaDeviceP2PAttr::cudaDevP2PAttrNativeAtomicSupported;
        // SAFETY: the pointer is valid for one write; an unknown attribute or device is an error.
        let code = unsafe { function(&mut has, attribute, from as i32, to as i32) };
        self.check(CALL, code, Some(from), || pair(from, to))?;
        Ok(has != 0)
    }

    /// Lets `from` access the memory of `to`. Returns false if it was enabled before.
    pub(crate) fn enable_peer_access(&self, from: u32, to: u32) -> Result<bool> {
        let call = "cudaDeviceEnablePeerAccess";
        let enabled = self.on(
            from,
            call,
            || pair(from, to),
            |table| {
                // SAFETY: no preconditions; an unknown device is an error.
                unsafe { (table.cudaDeviceEnablePeerAccess)(to as i32, 0) }
            },
        );
        unless(enabled, cudaError::cudaErrorPeerAccessAlreadyEnabled)
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access). Does nothing if other code undid it.
    pub(crate) fn disable_peer_access(&self, from: u32, to: u32) -> Result<()> {
        let call = "cudaDeviceDisablePeerAccess";
        let disabled = self.on_release(
            from,
            call,
            || pair(from, to),
            |table| {
                // SAFETY: all work of `from` that accesses the memory of `to` is over: the caller waited for it.
                unsafe { (table.cudaDeviceDisablePeerAccess)(to as i32) }
            },
        );
        unless(disabled, cudaError::cudaErrorPeerAccessNotEnabled).map(drop)
    }
}

/// False for this error, true for success.
fn unless(result: Result<()>, error: cudaError) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Call { code, .. }) if code == error.0 => Ok(false),
        Err(other) => Err(other),
    }
}
