//! Peer access: enabled once for each driver, and undone when nothing needs it.

use crate::context::device::DeviceState;
use crate::context::devices::Devices;
use crate::context::reclaim::{Deferred, Reclaim};
use crate::error::Result;
use crate::fork;
use crate::sync::Mutex;
use cuda_um_cost::PeerLink;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The enabled pairs of a driver, in all runtimes over it.
#[derive(Default)]
pub(crate) struct EnabledPeers(Mutex<BTreeMap<Pair, Enabled>>);

/// Ordinals: work of the first device accesses memory of the second.
type Pair = (u32, u32);

struct Enabled {
    /// The number of [`PeerAccess`]es with this pair. It is 0 while work may still need the access.
    holders: usize,
    /// False if other code had enabled the pair: it stays so.
    is_ours: bool,
    link: PeerLink,
}

/// Peer access between [`Devices`]: while it lives, kernels and copies of each device can access memory of the others, if
/// [`Devices::can_access_peer`] says so. [`Devices::enable_peer_access`] returns it.
///
/// # Ordering
///
/// A drop does not wait. Access ends after the work that the devices have at the drop, on a thread of the library
/// ([`Runtime::reclaim`](crate::Runtime::reclaim) waits for it and returns its errors). Work that accesses another device's memory must
/// be enqueued before the drop.
#[must_use = "access ends when this is dropped"]
#[derive(Debug)]
pub struct PeerAccess {
    devices: Devices,
    /// The pairs that this counts in the driver's state.
    pairs: Vec<Pair>,
}

impl Devices {
    /// Lets each device access the memory of each other one that it can access ([`can_access_peer`](Self::can_access_peer)). A pair is
    /// enabled once for all runtimes over the driver, and disabled after the drop of the last [`PeerAccess`] with it. A pair that other code
    /// enabled before is left as it is.
    ///
    /// Without it, copies between devices go through the memory of the host, and a kernel that accesses
    /// [`DeviceBuffer`](crate::DeviceBuffer)s of another device fails.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceEnablePeerAccess`; the pairs that this call enabled are then disabled.
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    pub fn enable_peer_access(&self) -> Result<PeerAccess> {
        fork::check("cudaDeviceEnablePeerAccess")?;
        let mut access = PeerAccess {
            devices: self.clone(),
            pairs: Vec::new(),
        };
        for (from, to) in self.pairs() {
            let link = self.peer_link(from, to);
            if let Some(link) = link.filter(|link| *link != PeerLink::Host) {
                let pair = (from.ordinal(), to.ordinal());
                from.state().driver.peers.enable(from.state(), pair, link)?;
                access.pairs.push(pair);
            }
        }
        Ok(access)
    }
}

impl PeerAccess {
    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Waits for all work of the devices and ends the access.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceSynchronize` and `cudaDeviceDisablePeerAccess`. If the wait fails, the pairs of its device stay enabled.
    #[doc(alias = "cudaDeviceDisablePeerAccess")]
    pub fn close(mut self) -> Result<()> {
        fork::check("cudaDeviceDisablePeerAccess")?;
        let mut first = Ok(());
        for (from, pairs) in self.unused() {
            first = first.and(from.undo_after_work(&pairs));
        }
        first
    }

    /// Counts the pairs no more. Returns those that nothing needs now, by their first device.
    fn unused(&mut self) -> Vec<(Arc<DeviceState>, Vec<Pair>)> {
        let pairs = std::mem::take(&mut self.pairs);
        let unused = self.devices.iter().map(|from| {
            let state = from.state();
            let own = pairs.iter().filter(|pair| pair.0 == from.ordinal());
            let is_unused = |pair: &Pair| state.driver.peers.release(*pair);
            (Arc::clone(state), own.copied().filter(is_unused).collect())
        });
        unused
            .filter(|(_, pairs): &(_, Vec<_>)| !pairs.is_empty())
            .collect()
    }
}

impl DeviceState {
    /// Waits for all work of the device, also for that of other runtimes and libraries; then undoes what nothing needs again.
    pub(crate) fn undo_after_work(&self, pairs: &[Pair]) -> Result<()> {
        self.api.device_synchronize(self.ordinal)?;
        let undone = pairs.iter().map(|&pair| self.driver.peers.undo(self, pair));
        undone.fold(Ok(()), Result::and)
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        if fork::is_over() {
            return;
        }
        for (from, pairs) in self.unused() {
            let reclaim: &Reclaim = from.reclaim.get();
            reclaim.defer(Deferred {
                uses: from.streams.uses(),
                what: format!("peer access of device {}", from.ordinal),
                release: Box::new({
                    let from = Arc::clone(&from);
                    move || from.undo_after_work(&pairs)
                }),
            });
        }
    }
}

impl EnabledPeers {
    /// Returns true if a [`PeerAccess`] has the pair.
    pub(crate) fn is_held(&self, pair: Pair) -> bool {
        let enabled = self.0.lock();
        enabled
            .get(&pair)
            .is_some_and(|enabled| enabled.holders > 0)
    }

    /// The devices that a [`PeerAccess`] lets access the memory of a device, and their links, in the order of their ordinals.
    pub(crate) fn linked_to(&self, to: u32) -> SmallVec<[(u32, PeerLink); 8]> {
        let enabled = self.0.lock();
        let held = enabled
            .iter()
            .filter(|(pair, enabled)| pair.1 == to && enabled.holders > 0);
        held.map(|(pair, enabled)| (pair.0, enabled.link)).collect()
    }

    /// Enables the pair, or counts one more holder.
    pub(crate) fn enable(&self, from: &DeviceState, pair: Pair, link: PeerLink) -> Result<()> {
        let mut enabled = self.0.lock();
        if let Some(enabled) = enabled.get_mut(&pair) {
            enabled.holders += 1;
            return Ok(());
        }
        // Within the lock, so that an undo of this pair does not come after it.
        let is_ours = from.api.enable_peer_access(pair.0, pair.1)?;
        let first = Enabled {
            holders: 1,
            is_ours,
            link,
        };
        enabled.insert(pair, first);
        Ok(())
    }

    /// Counts one holder less. Returns true if the pair must be undone.
    pub(crate) fn release(&self, pair: Pair) -> bool {
        let mut all = self.0.lock();
        let Some(enabled) = all.get_mut(&pair) else {
            return false;
        };
        enabled.holders -= 1;
        match (enabled.holders, enabled.is_ours) {
            (0, true) => true,
            (0, false) => {
                all.remove(&pair);
                false
            }
            _ => false,
        }
    }

    /// Disables the pair, unless it has a holder again.
    fn undo(&self, from: &DeviceState, pair: Pair) -> Result<()> {
        let mut enabled = self.0.lock();
        if enabled.get(&pair).is_none_or(|enabled| enabled.holders > 0) {
            return Ok(());
        }
        // Also after an error, because a call may report the failure of earlier work: to enable the pair again is harmless.
        enabled.remove(&pair);
        from.api.disable_peer_access(pair.0, pair.1)
    }
}
