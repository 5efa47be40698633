//! What belongs to the driver, so that several runtimes over it share it.

use crate::context::slot::Slot;
use crate::driver::MemoryInfo;
use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The state that all runtimes over one driver share.
#[derive(Default)]
pub(crate) struct DriverState {
    /// Of the gate that keeps the host and devices without concurrent managed access apart.
    pub(crate) gate: Slot,
    /// Live managed bytes, for each device.
    managed: Mutex<HashMap<u32, usize>>,
    /// Of all runtimes.
    devices: Mutex<Vec<Weak<dyn Pending>>>,
}

/// A device, as far as its work is concerned.
pub(crate) trait Pending: Send + Sync {
    /// Whether all work that this library gave the device is known to be done. Asks the device nothing.
    fn is_known_idle(&self) -> bool;
}

/// Managed bytes that count against a device until dropped.
pub(crate) struct ManagedBytes {
    state: Arc<DriverState>,
    ordinal: u32,
    bytes: usize,
    origin: Origin,
}

impl DriverState {
    /// The state of the driver with this identity (see `Api::driver_identity`).
    pub(crate) fn of(identity: usize) -> Arc<Self> {
        static STATES: Mutex<Vec<(usize, Weak<DriverState>)>> = Mutex::new(Vec::new());
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

    pub(crate) fn add_device(&self, device: &Arc<dyn Pending>) {
        let mut devices = self.devices.lock();
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(device));
    }

    /// Whether all work that this library gave any device is known to be done: freeing waits for all of them. Asks no device.
    pub(crate) fn is_known_idle(&self) -> bool {
        // Upgraded first: the last handle of a device must not go under the lock.
        let devices: Vec<_> = {
            let devices = self.devices.lock();
            devices.iter().filter_map(Weak::upgrade).collect()
        };
        devices.iter().all(|device| device.is_known_idle())
    }

    /// Counts `bytes` more on the device; beyond `limit` (live and new bytes together) it is refused with the bytes live now.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        ordinal: u32,
        bytes: usize,
        limit: Option<usize>,
    ) -> Result<ManagedBytes, usize> {
        let mut managed = self.managed.lock();
        let live = managed.entry(ordinal).or_default();
        let after = live.saturating_add(bytes);
        if limit.is_some_and(|limit| after > limit) {
            return Err(*live);
        }
        *live = after;
        Ok(ManagedBytes {
            state: Arc::clone(self),
            ordinal,
            bytes,
            origin: Origin::here(),
        })
    }
}

impl ManagedBytes {
    /// Counts them for good: the memory could not be freed.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for ManagedBytes {
    fn drop(&mut self) {
        if self.origin.is_inherited() {
            return;
        }
        if let Some(live) = self.state.managed.lock().get_mut(&self.ordinal) {
            *live = live.saturating_sub(self.bytes);
        }
    }
}

/// The refusal to oversubscribe.
pub(crate) fn would_oversubscribe(
    ordinal: u32,
    requested_bytes: usize,
    live_bytes: usize,
    info: MemoryInfo,
) -> Error {
    Error::OutOfMemory {
        call: "cudaMallocManaged",
        subject: format!(
            "managed memory on device {ordinal}, not allocated: with the {live_bytes} managed bytes that live there already it \
             would oversubscribe the device, which UnifiedOptions does not allow"
        ),
        requested_bytes,
        free_bytes: info.free_bytes,
        total_bytes: info.total_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_exactly_is_not_refused() {
        let state = Arc::new(DriverState::default());
        let all = state.reserve(0, 100, Some(100)).ok().unwrap();
        assert_eq!(state.reserve(0, 1, Some(100)).err(), Some(100));
        drop(all);
        assert!(state.reserve(0, 100, Some(100)).is_ok());
    }
}
