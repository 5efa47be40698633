//! Peer access: enabled once for each driver, for the rest of the process.

use crate::context::devices::Devices;
use crate::error::Result;

impl Devices {
    /// Lets each device access the memory of each other one that it can access ([`can_access_peer`](Self::can_access_peer)), for the rest
    /// of the process. A pair is enabled once for all runtimes over the driver. It is never disabled, because work of any stream may need it.
    ///
    /// Without it, copies between devices go through the memory of the host, and a kernel that accesses
    /// [`DeviceBuffer`](crate::DeviceBuffer)s of another device is refused.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceEnablePeerAccess`; the pairs that were enabled before stay so.
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    pub fn enable_peer_access(&self) -> Result<()> {
        let mut peers = self[0].state().driver.peers.lock();
        for (from, to) in self.pairs() {
            let pair = (from.ordinal(), to.ordinal());
            if self.can_access_peer(from, to) && !peers.contains(&pair) {
                from.api().enable_peer_access(pair.0, pair.1)?;
                peers.insert(pair);
            }
        }
        Ok(())
    }
}
