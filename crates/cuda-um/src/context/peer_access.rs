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
use crate::sync::Mutex;
use cuda_um_cost::PeerLink;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The enabled pairs of a driver, in all runtimes over it.
#[derive(Default)]
pub(crate) struct EnabledPeers(Mutex<Peers>);

#[derive(Default)]
struct Peers {
    enabled: BTreeMap<Pair, Enabled>,
    /// The number of times that a pair lost its last holder.
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

/// A pair that lost its last holder, and the value of [`Peers::released`] then.
pub(crate) type Unused = (Pair, u64);

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
                from.state().driver.peers.enable(from.state(), pair, link)?;
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
    /// Errors of `cudaDeviceSynchronize`, after which the pairs stay enabled, and of `cudaDeviceDisablePeerAccess`.
    #[doc(alias = "cudaDeviceDisablePeerAccess")]
    pub fn close(self) -> Result<()> {
        fork::check("cudaDeviceDisablePeerAccess")?;
        let Self { mut held, .. } = self;
        let unused = held.release();
        held.device.undo_after_work(&unused)
    }
}

impl fmt::Debug for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerAccess").field(&self.devices).finish()
    }
}

impl Held {
    /// Those between these devices that are enabled.
    pub(crate) fn among(device: &Arc<DeviceState>, ordinals: &[u32]) -> Self {
        Self {
            device: Arc::clone(device),
            pairs: device.driver.peers.hold(ordinals),
        }
    }

    /// Counts the pairs no more. Returns those that nothing needs now.
    fn release(&mut self) -> Vec<Unused> {
        let peers = &self.device.driver.peers;
        let pairs = std::mem::take(&mut self.pairs).into_iter();
        pairs.filter_map(|pair| peers.release(pair)).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.pairs.is_empty() || fork::is_over() {
            return;
        }
        let unused = self.release();
        if unused.is_empty() {
            return;
        }
        let device = Arc::clone(&self.device);
        let reclaim: &Reclaim = self.device.reclaim.get();
        reclaim.defer(Deferred {
            uses: device.driver.uses(),
            what: "peer access".to_owned(),
            release: Box::new(move || device.undo_after_work(&unused)),
        });
    }
}

impl DeviceState {
    /// Waits for all work of all devices, also for that of other runtimes and libraries; then undoes what nothing needs again.
    pub(crate) fn undo_after_work(&self, unused: &[Unused]) -> Result<()> {
        let peers = &self.driver.peers;
        let mut unused = unused.iter().filter(|unused| peers.is_unused(unused));
        let Some(first) = unused.next() else {
            return Ok(());
        };
        self.driver.synchronize()?;
        let all = std::iter::once(first).chain(unused);
        let undone = all.map(|unused| peers.undo(&self.api, unused));
        undone.fold(Ok(()), Result::and)
    }
}

impl EnabledPeers {
    /// Returns true if a [`PeerAccess`] has the pair.
    pub(crate) fn is_held(&self, pair: Pair) -> bool {
        let peers = self.0.lock();
        let enabled = peers.enabled.get(&pair);
        enabled.is_some_and(|enabled| enabled.holders > 0)
    }

    /// The devices that a [`PeerAccess`] lets access the memory of a device, and their links, in the order of their ordinals.
    pub(crate) fn linked_to(&self, to: u32) -> SmallVec<[(u32, PeerLink); 8]> {
        let peers = self.0.lock();
        let held = peers.enabled.iter();
        let held = held.filter(|(pair, enabled)| pair.1 == to && enabled.holders > 0);
        held.map(|(pair, enabled)| (pair.0, enabled.link)).collect()
    }

    /// No pair is disabled from now on: NCCL may count on those that were enabled when it began (measured with `NCCL_CUMEM_ENABLE=0`:
    /// docs/results/h200-x4-cuda-13.0/peer-access.txt).
    pub(crate) fn keep(&self) {
        self.0.lock().are_kept = true;
    }

    /// Enables the pair, or counts one more holder.
    pub(crate) fn enable(&self, from: &DeviceState, pair: Pair, link: PeerLink) -> Result<()> {
        let mut peers = self.0.lock();
        if let Some(enabled) = peers.enabled.get_mut(&pair) {
            enabled.holders += 1;
            return Ok(());
        }
        // Within the lock, so that an undo of this pair does not come after it.
        let is_ours = from.api.enable_peer_access(pair.0, pair.1)?;
        let first = Enabled {
            holders: 1,
            released: 0,
            is_ours,
            link,
        };
        peers.enabled.insert(pair, first);
        Ok(())
    }

    /// Counts one more holder of each enabled pair between these devices, also of those that wait for their end.
    fn hold(&self, ordinals: &[u32]) -> SmallVec<[Pair; 2]> {
        if ordinals.windows(2).all(|two| two[0] == two[1]) {
            return SmallVec::new();
        }
        let mut peers = self.0.lock();
        let between = |pair: &Pair| ordinals.contains(&pair.0) && ordinals.contains(&pair.1);
        let held = peers.enabled.iter_mut().filter(|(pair, _)| between(pair));
        held.map(|(pair, enabled)| {
            enabled.holders += 1;
            *pair
        })
        .collect()
    }

    /// Counts one holder less. Returns the pair if it must be undone.
    pub(crate) fn release(&self, pair: Pair) -> Option<Unused> {
        let mut peers = self.0.lock();
        let Peers {
            enabled,
            released,
            are_kept,
        } = &mut *peers;
        let of_pair = enabled.get_mut(&pair)?;
        of_pair.holders -= 1;
        if of_pair.holders > 0 || *are_kept {
            return None;
        }
        if !of_pair.is_ours {
            enabled.remove(&pair);
            return None;
        }
        *released += 1;
        of_pair.released = *released;
        Some((pair, *released))
    }

    /// Whether the pair had no holder since then.
    fn is_unused(&self, unused: &Unused) -> bool {
        self.0.lock().is_unused(unused)
    }

    /// Disables the pair, unless it had a holder since then: its work may go on, and a later undo waits for it.
    fn undo(&self, api: &Api, unused: &Unused) -> Result<()> {
        let mut peers = self.0.lock();
        if !peers.is_unused(unused) {
            return Ok(());
        }
        // Also after an error, because a call may report the failure of earlier work: to enable the pair again is harmless.
        let (pair, _) = unused;
        peers.enabled.remove(pair);
        api.disable_peer_access(pair.0, pair.1)
    }
}

impl Peers {
    fn is_unused(&self, (pair, released): &Unused) -> bool {
        let is_it = |enabled: &Enabled| enabled.holders == 0 && enabled.released == *released;
        !self.are_kept && self.enabled.get(pair).is_some_and(is_it)
    }
}
