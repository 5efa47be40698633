//! Devices: memory in use, peers, times.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use super::link::Links;
use super::machine::Machine;
use super::status::Code;
use crate::preset::Profile;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) total_bytes: u64,
    reserved_bytes: u64,
    page_cache_bytes: u64,
    /// Bytes of device allocations and of the reserves of pools.
    pub(crate) explicit_bytes: u64,
    /// Bytes of managed pages that are resident here.
    pub(crate) managed_bytes: u64,
    /// Devices whose memory this one reaches.
    pub(crate) peers: BTreeSet<usize>,
    pub(crate) default_pool: usize,
    pub(crate) pool: usize,
    /// How often its primary context was retained and not released.
    pub(crate) retained: u32,
    /// End of the last work, on the virtual clock.
    pub(crate) end: Duration,
}

impl Device {
    fn new(profile: &Profile) -> Device {
        Device {
            total_bytes: profile.total_memory_bytes,
            reserved_bytes: profile
                .reserved_memory_bytes
                .min(profile.total_memory_bytes / 8),
            page_cache_bytes: profile.page_cache_bytes,
            explicit_bytes: 0,
            managed_bytes: 0,
            peers: BTreeSet::new(),
            default_pool: 0,
            pool: 0,
            retained: 0,
            end: Duration::ZERO,
        }
    }

    /// Bytes that allocations can have. They reclaim the page cache.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.total_bytes
            .saturating_sub(self.reserved_bytes + self.explicit_bytes + self.managed_bytes)
    }

    /// Bytes that nothing has, not even the page cache.
    pub(crate) fn unused_bytes(&self) -> u64 {
        self.free_bytes().saturating_sub(self.page_cache_bytes)
    }

    /// The device has worked until `end`.
    pub(crate) fn worked_until(&mut self, end: Duration) {
        self.end = self.end.max(end);
    }
}

/// The devices of one simulator, by ordinal.
pub(crate) struct Devices {
    machine: Arc<Machine>,
    devices: Vec<Device>,
    pub(super) links: Links,
}

impl Devices {
    pub(crate) fn new(machine: Arc<Machine>, count: usize) -> Devices {
        let devices = (0..count).map(|_| Device::new(&machine.profile)).collect();
        Devices {
            machine,
            devices,
            links: Links::default(),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    pub(crate) fn get(&self, ordinal: usize) -> Option<&Device> {
        self.devices.get(ordinal)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.devices.iter_mut()
    }

    /// Checks a device ordinal.
    pub(crate) fn ordinal(&self, ordinal: i32) -> Result<usize, Code> {
        usize::try_from(ordinal)
            .ok()
            .filter(|ordinal| *ordinal < self.devices.len())
            .ok_or(Code::INVALID_DEVICE)
    }

    /// Whether `from` may reach the memory of `to`.
    pub(crate) fn can_access(&self, from: usize, to: usize) -> bool {
        // A device is not a peer of itself: measured with CUDA 13.0 on two H200s.
        from != to && self.machine.profile.peers
    }

    /// Lets `from` reach the memory of `to`.
    pub(crate) fn enable_peer(&mut self, from: usize, to: usize) -> Result<(), Code> {
        if !self.can_access(from, to) {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let is_new = self[from].peers.insert(to);
        is_new
            .then_some(())
            .ok_or(Code::PEER_ACCESS_ALREADY_ENABLED)
    }

    /// Undoes [`enable_peer`](Self::enable_peer).
    pub(crate) fn disable_peer(&mut self, from: usize, to: usize) -> Result<(), Code> {
        let was_enabled = self[from].peers.remove(&to);
        was_enabled
            .then_some(())
            .ok_or(Code::PEER_ACCESS_NOT_ENABLED)
    }

    /// Whether a kernel on `device` reaches the memory of `owner`.
    pub(crate) fn reaches(&self, device: usize, owner: usize) -> bool {
        device == owner || self[device].peers.contains(&owner)
    }
}

impl Index<usize> for Devices {
    type Output = Device;

    fn index(&self, ordinal: usize) -> &Device {
        &self.devices[ordinal]
    }
}

impl IndexMut<usize> for Devices {
    fn index_mut(&mut self, ordinal: usize) -> &mut Device {
        &mut self.devices[ordinal]
    }
}
