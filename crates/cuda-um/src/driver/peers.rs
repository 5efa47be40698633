//! Access of devices to each other's memory.

use crate::driver::api::Api;
use crate::driver::call::calls;
use crate::error::{Error, Result};
use cuda_um_cost::PeerLink;
use cuda_um_sys::{cudaDeviceP2PAttr, cudaError};

calls! {
    safe fn can_access_peer(from, to: u32) -> can: i32
        => [Anywhere] runtime.cudaDeviceCanAccessPeer(&mut can, from as i32, to as i32),
        of ("device {from} and the memory of device {to}");

    safe fn peer_attribute(from, to: u32, attribute: cudaDeviceP2PAttr) -> value: i32
        => [Anywhere] newer.cudaDeviceGetP2PAttribute(
            &mut value,
            attribute,
            from as i32,
            to as i32,
        ),
        of ("device {from} and the memory of device {to}");

    safe fn enable_access(from, to: u32)
        => runtime.cudaDeviceEnablePeerAccess(to as i32, 0),
        of ("device {from} and the memory of device {to}");
}

impl Api {
    /// The link over which `from` accesses the memory of `to`; `None` for a device and itself.
    pub(crate) fn peer_link(&self, from: u32, to: u32) -> Result<Option<PeerLink>> {
        if from == to {
            return Ok(None);
        }
        let can = self.can_access_peer(from, to)? != 0;
        let atomics = cudaDeviceP2PAttr::cudaDevP2PAttrNativeAtomicSupported;
        let has_atomics = can
            && self.table.cudaDeviceGetP2PAttribute.is_some()
            && self.peer_attribute(from, to, atomics)? != 0;
        Ok(Some(PeerLink::of(can, has_atomics)))
    }

    /// Lets `from` access the memory of `to`. Does nothing if other code did.
    pub(crate) fn enable_peer_access(&self, from: u32, to: u32) -> Result<()> {
        let has_access = cudaError::cudaErrorPeerAccessAlreadyEnabled.0;
        self.enable_access(from, to).or_else(|error| match error {
            Error::Call { code, .. } if code == has_access => Ok(()),
            error => Err(error),
        })
    }
}
