//! Peer access: enabled once for each driver, and undone when nothing needs it.
//!
//! A copy between two devices takes their link if access is enabled in either direction, on a stream of any device, and the end of the access
//! under it loses the devices (measured: docs/results/h200-x4-cuda-13.0/peer-access.txt). So work holds what it may use while it is enqueued
//! ([`Held::among`]), and an undo waits for all devices.

use crate::context::device::DeviceState;
use crate::context::devices::Devices;
use crate::context::reclaim::{Deferred, Reclaim};
use crate::driver::Api;
use crate::error::Result;
use crate::fork;
use cuda_um_cost::PeerLink;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The enabled pairs of a driver, in all runtimes over it.
#[derive(Default)]
pub(crate) struct Peers {
    enabled: BTreeMap<Pair, Enabled>,
    /// Counts the times that a pair lost its last holder.
    released: u64,
    /// NCCL may count on the pairs.
    are_kept: bool,
}

/// Ordinals: work of the first device accesses memory of the second.
type Pair = (u32, u32);

struct Enabled {
    /// The number of [`Held`]s with this pair. It is 0 while work may still need the access.
    holders: usize,
    /// The value of [`Peers::released`] when the last holder went.
    released: u64,
    /// False if other code had enabled the pair: it stays so.
    is_ours: bool,
    link: PeerLink,
}

/// Pairs that stay enabled until this is dropped.
pub(crate) struct Held {
    device: Arc<DeviceState>,
    pairs: SmallVec<[Pair; 2]>,
}

/// Peer access between [`Devices`]: while it lives, kernels and copies of each device can access memory of the others, if
/// [`Devices::can_access_peer`] says so. [`Devices::enable_peer_access`] returns it.
///
/// # Ordering
///
/// A drop does not wait. Access ends after the work that all devices have at the drop, on a thread of the library
/// ([`Runtime::reclaim`](crate::Runtime::reclaim) waits for it and returns its errors). A kernel that accesses another device's memory must
/// be enqueued before the drop; a copy may be enqueued at any time. Access stays if a [`Communicator`](crate::collective::Communicator) was
/// made, because NCCL may count on it.
#[must_use = "access ends when this is dropped"]
pub struct PeerAccess {
    devices: Devices,
    held: Held,
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
            held: Held::among(self[0].state(), &[]),
        };
        for (from, to) in self.pairs() {
            let link = self.peer_link(from, to);
            if let Some(link) = link.filter(|link| *link != PeerLink::Host) {
                let pair = (from.ordinal(), to.ordinal());
                let peers = &from.state().driver.peers;
                peers.lock().enable(from.api(), pair, link)?;
                access.held.pairs.push(pair);
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

    /// Waits for all work of all devices and ends the access.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceSynchronize`, after which the pairs stay enabled until the next access ends, and of
    /// `cudaDeviceDisablePeerAccess`.
    #[doc(alias = "cudaDeviceDisablePeerAccess")]
    pub fn close(self) -> Result<()> {
        fork::check("cudaDeviceDisablePeerAccess")?;
        let Self { mut held, .. } = self;
        held.release();
        held.device.end_unused_peer_access()
    }
}

impl fmt::Debug for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerAccess").field(&self.devices).finish()
    }
}

impl Held {
    /// Those between these devices that are enabled, also those that wait for their end.
    pub(crate) fn among(device: &Arc<DeviceState>, ordinals: &[u32]) -> Self {
        let mut pairs = SmallVec::new();
        if ordinals.windows(2).any(|two| two[0] != two[1]) {
            for (pair, enabled) in &mut device.driver.peers.lock().enabled {
                if ordinals.contains(&pair.0) && ordinals.contains(&pair.1) {
                    enabled.holders += 1;
                    pairs.push(*pair);
                }
            }
        }
        let device = Arc::clone(device);
        Self { device, pairs }
    }

    /// Counts the pairs no more. Returns true if nothing needs one of them now.
    fn release(&mut self) -> bool {
        let pairs = std::mem::take(&mut self.pairs);
        self.device.driver.peers.lock().release(&pairs)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.pairs.is_empty() || fork::is_over() || !self.release() {
            return;
        }
        let device = Arc::clone(&self.device);
        let reclaim: &Reclaim = self.device.reclaim.get();
        reclaim.defer(Deferred {
            uses: device.driver.uses(),
            what: "peer access".to_owned(),
            release: Box::new(move || device.end_unused_peer_access()),
        });
    }
}

impl DeviceState {
    /// Waits for all work of all devices, also for that of other runtimes and libraries; then disables the pairs that nothing needed since.
    pub(crate) fn end_unused_peer_access(&self) -> Result<()> {
        let peers = &self.driver.peers;
        let before = peers.lock().unused();
        if before.is_empty() {
            return Ok(());
        }
        self.driver.synchronize()?;
        let mut peers = peers.lock();
        // The work of a holder that came since may go on: a later wait is for it.
        let mut unused = peers.unused();
        unused.retain(|pair| before.contains(pair));
        let ended = unused.into_iter().map(|((from, to), _)| {
            // Also after an error, because a call may report the failure of earlier work: to enable the pair again is harmless.
            peers.enabled.remove(&(from, to));
            self.api.disable_peer_access(from, to)
        });
        ended.fold(Ok(()), Result::and)
    }
}

impl Peers {
    /// Returns true if a [`PeerAccess`] has the pair.
    pub(crate) fn is_held(&self, pair: Pair) -> bool {
        let enabled = self.enabled.get(&pair);
        enabled.is_some_and(|enabled| enabled.holders > 0)
    }

    /// The devices that a [`PeerAccess`] lets access the memory of a device, and their links, in the order of their ordinals.
    pub(crate) fn linked_to(&self, to: u32) -> SmallVec<[(u32, PeerLink); 8]> {
        let held = self.enabled.iter();
        let held = held.filter(|(pair, enabled)| pair.1 == to && enabled.holders > 0);
        held.map(|(pair, enabled)| (pair.0, enabled.link)).collect()
    }

    /// No pair is disabled from now on: NCCL may count on those that were enabled when it began (measured with `NCCL_CUMEM_ENABLE=0`:
    /// docs/results/h200-x4-cuda-13.0/peer-access.txt).
    pub(crate) fn keep(&mut self) {
        self.are_kept = true;
    }

    /// Enables the pair, or counts one more holder.
    pub(crate) fn enable(&mut self, api: &Api, pair: Pair, link: PeerLink) -> Result<()> {
        if let Some(enabled) = self.enabled.get_mut(&pair) {
            enabled.holders += 1;
            return Ok(());
        }
        // Within the lock, so that no end of this pair comes after it.
        let is_ours = api.enable_peer_access(pair.0, pair.1)?;
        let first = Enabled {
            holders: 1,
            released: 0,
            is_ours,
            link,
        };
        self.enabled.insert(pair, first);
        Ok(())
    }

    /// Counts one holder less of each pair. Returns true if nothing needs one of them now.
    pub(crate) fn release(&mut self, pairs: &[Pair]) -> bool {
        let mut is_unused = false;
        for (_, enabled) in self
            .enabled
            .iter_mut()
            .filter(|(pair, _)| pairs.contains(pair))
        {
            enabled.holders -= 1;
            if enabled.holders == 0 {
                self.released += 1;
                enabled.released = self.released;
                is_unused |= enabled.is_ours && !self.are_kept;
            }
        }
        self.enabled
            .retain(|_, enabled| enabled.is_ours || enabled.holders > 0);
        is_unused
    }

    /// The pairs without a holder that are to be disabled, and the count of the release of each.
    fn unused(&self) -> Vec<(Pair, u64)> {
        let enabled = self.enabled.iter().filter(|_| !self.are_kept);
        let unused = enabled.filter(|(_, enabled)| enabled.holders == 0);
        unused.map(|(pair, it)| (*pair, it.released)).collect()
    }
}
