//! Access of devices to each other's memory.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::{Error, Result};
use crate::process_end::Calls;
use cuda_um_cost::PeerLink;
use cuda_um_sys::{Table, cudaDeviceP2PAttr, cudaError};

fn pair(from: u32, to: u32) -> Subject {
    Subject::new(format_args!("device {from} and the memory of device {to}"))
}

impl Api {
    /// The link over which `from` accesses the memory of `to`; `None` for a device and itself.
    pub(crate) fn peer_link(&self, from: u32, to: u32) -> Result<Option<PeerLink>> {
        if from == to {
            return Ok(None);
        }
        let name = "cudaDeviceCanAccessPeer";
        let _calls = Calls::of(name)?;
        let check = |name, code| self.check(name, code, Some(from), || pair(from, to));
        let (first, second) = (from as i32, to as i32);
        let atomics = cudaDeviceP2PAttr::cudaDevP2PAttrNativeAtomicSupported;
        let (mut can, mut has_atomics) = (0, 0);
        // SAFETY: the pointers are valid for one write; an unknown attribute or device is an error.
        unsafe {
            let code = (self.table.cudaDeviceCanAccessPeer)(&mut can, first, second);
            check(name, code)?;
            if let Some(get) = self.table.cudaDeviceGetP2PAttribute.filter(|_| can != 0) {
                let code = get(&mut has_atomics, atomics, first, second);
                check("cudaDeviceGetP2PAttribute", code)?;
            }
        }
        Ok(Some(PeerLink::of(can != 0, has_atomics != 0)))
    }

    /// Lets `from` access the memory of `to`. Does nothing if other code did.
    pub(crate) fn enable_peer_access(&self, from: u32, to: u32) -> Result<()> {
        let enable = |table: &Table| {
            // SAFETY: no preconditions; an unknown device is an error.
            unsafe { (table.cudaDeviceEnablePeerAccess)(to as i32, 0) }
        };
        let name = "cudaDeviceEnablePeerAccess";
        match self.on(from, name, || pair(from, to), enable) {
            Err(Error::Call { code, .. })
                if code == cudaError::cudaErrorPeerAccessAlreadyEnabled.0 =>
            {
                Ok(())
            }
            enabled => enabled,
        }
    }
}
