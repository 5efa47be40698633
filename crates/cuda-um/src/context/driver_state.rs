//! State of the driver, which all runtimes over it share.

use crate::context::exclusion::Gate;
use crate::context::streams::Streams;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, global};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

#[derive(Default)]
pub(crate) struct DriverState {
    /// The gate that separates the host from devices without concurrent managed access.
    pub(crate) gate: Arc<Gate>,
    managed: Mutex<HashMap<u32, usize>>,
    /// A bit for each device whose managed memory may exceed its memory: the last one is for all devices from 63 on.
    // Relaxed: it says nothing of other memory.
    evicts: AtomicU64,
    /// The open devices of all runtimes.
    devices: Mutex<Vec<Weak<Streams>>>,
    /// The pairs with peer access: work of the first device accesses memory of the second.
    pub(crate) peers: Mutex<BTreeSet<(u32, u32)>>,
}

/// The states of all drivers in use, with their identities.
type States = Mutex<Vec<(usize, Weak<DriverState>)>>;

impl DriverState {
    /// The state for the driver with this identity (see `Api::driver_identity`).
    pub(crate) fn of(identity: usize) -> Arc<Self> {
        global! {
            static STATES: States = Mutex::new(Vec::new());
        }
        let mut states = STATES.lock();
        states.retain(|(_, state)| state.strong_count() > 0);
        if let Some(state) = states
            .iter()
            .find(|(of, _)| *of == identity)
            .and_then(|(_, state)| state.upgrade())
        {
            return state;
        }
        let state = Arc::new(Self::default());
        states.push((identity, Arc::downgrade(&state)));
        state
    }

    pub(crate) fn add_device(&self, device: &Arc<Streams>) {
        let mut devices = self.devices.lock();
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(device));
    }

    /// Returns true if all work that this library enqueued on any device is known to be done; freeing waits for all devices. Queries only
    /// what dropped streams left.
    pub(crate) fn is_known_idle(&self) -> bool {
        // Upgrade first: the last handle of a list must not be dropped under the lock.
        let devices: Vec<_> = {
            let devices = self.devices.lock();
            devices.iter().filter_map(Weak::upgrade).collect()
        };
        devices.iter().all(|device| device.is_known_idle())
    }

    /// From now on the driver may evict managed memory of the device.
    pub(crate) fn may_evict(&self, ordinal: u32) {
        self.evicts
            .fetch_or(1 << ordinal.min(63), Ordering::Relaxed);
    }

    /// Returns true if the driver may evict managed memory of the device.
    #[inline]
    pub(crate) fn evicts(&self, ordinal: u32) -> bool {
        self.evicts.load(Ordering::Relaxed) & 1 << ordinal.min(63) != 0
    }

    /// Counts `bytes` more for the device. If live and new bytes together exceed `limit`, returns the bytes that are live as the
    /// error.
    pub(crate) fn reserve(
        &self,
        ordinal: u32,
        bytes: usize,
        limit: Option<usize>,
    ) -> Result<(), usize> {
        let mut managed = self.managed.lock();
        let live = managed.entry(ordinal).or_default();
        let after = live.saturating_add(bytes);
        if limit.is_some_and(|limit| after > limit) {
            return Err(*live);
        }
        *live = after;
        Ok(())
    }

    /// Counts `bytes` less for the device, because they were freed.
    pub(crate) fn discharge(&self, ordinal: u32, bytes: usize) {
        if let Some(live) = self.managed.lock().get_mut(&ordinal) {
            *live = live.saturating_sub(bytes);
        }
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_fits_exactly_is_not_refused() {
        let state = DriverState::default();
        assert_eq!(state.reserve(0, 100, Some(100)), Ok(()));
        assert_eq!(state.reserve(0, 1, Some(100)), Err(100));
        state.discharge(0, 100);
        assert_eq!(state.reserve(0, 100, Some(100)), Ok(()));
    }
}
