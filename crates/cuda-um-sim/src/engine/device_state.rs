//! A device, as the state holds it: memory in use, peers, times.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::preset::Profile;

/// One device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) total_bytes: u64,
    reserved_bytes: u64,
    /// Device allocations and pool reserves.
    pub(crate) explicit_bytes: u64,
    /// Managed pages resident here.
    pub(crate) managed_bytes: u64,
    /// Devices whose memory this one reaches.
    pub(crate) peers: BTreeSet<usize>,
    pub(crate) default_pool: usize,
    pub(crate) pool: usize,
    /// End of the last work, on the virtual clock.
    pub(crate) end: Duration,
    /// When the link is free again.
    pub(crate) link_in: Duration,
    pub(crate) link_out: Duration,
}

impl DeviceState {
    pub(crate) fn new(profile: &Profile) -> DeviceState {
        DeviceState {
            total_bytes: profile.total_memory_bytes,
            reserved_bytes: profile
                .reserved_memory_bytes
                .min(profile.total_memory_bytes / 8),
            explicit_bytes: 0,
            managed_bytes: 0,
            peers: BTreeSet::new(),
            default_pool: 0,
            pool: 0,
            end: Duration::ZERO,
            link_in: Duration::ZERO,
            link_out: Duration::ZERO,
        }
    }

    /// Bytes that nothing holds.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.total_bytes
            .saturating_sub(self.reserved_bytes + self.explicit_bytes + self.managed_bytes)
    }
}
