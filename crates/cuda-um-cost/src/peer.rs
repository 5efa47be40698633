//! Times between two devices.

use crate::{CostModel, at_rate};
use std::time::Duration;

/// The way from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerLink {
    /// NVLink, directly or through NVSwitch.
    NvLink,
    /// PCIe: the device accesses the other's memory, and the link of each to the host carries the bytes.
    Pcie,
    /// The memory of the host: the device cannot access the other's memory.
    Host,
}

impl PeerLink {
    /// The link of two devices. This is a guess, because the CUDA runtime does not report the link: NVLink has atomics, PCIe does not.
    ///
    /// `can_access` is what `cudaDeviceCanAccessPeer` returns, `native_atomics` the attribute `cudaDevP2PAttrNativeAtomicSupported`.
    ///
    /// ```
    /// use cuda_um_cost::PeerLink;
    /// assert_eq!(PeerLink::of(true, true), PeerLink::NvLink);
    /// assert_eq!(PeerLink::of(true, false), PeerLink::Pcie);
    /// assert_eq!(PeerLink::of(false, false), PeerLink::Host);
    /// ```
    pub fn of(can_access: bool, native_atomics: bool) -> Self {
        match (can_access, native_atomics) {
            (false, _) => Self::Host,
            (true, false) => Self::Pcie,
            (true, true) => Self::NvLink,
        }
    }
}

/// A relay must be faster by this factor, because the model may be wrong.
const RELAY_GAIN: f64 = 1.1;

impl CostModel {
    /// The rate of copies from one device to another, in bytes a second. Through the host, the two halves of a copy follow each other.
    pub fn peer_rate_over(&self, link: PeerLink) -> f64 {
        match link {
            PeerLink::NvLink => self.peer_rate,
            PeerLink::Pcie => self.pinned_rate,
            PeerLink::Host => self.pinned_rate / 2.0,
        }
    }

    /// The time of a copy from one device to another.
    ///
    /// ```
    /// use cuda_um_cost::{CostModel, PeerLink};
    /// let measured = 686.0; // us, of 256 MiB between two H200s
    /// let (model, link, bytes) = (CostModel::h200(), PeerLink::NvLink, 256 << 20);
    /// let time = model.peer_copy(link, bytes);
    /// assert!((time.as_secs_f64() * 1e6 / measured - 1.0).abs() < 0.05, "{time:?}");
    ///
    /// // Managed memory: a copy into a new block is faster than a prefetch.
    /// assert!(model.peer_prefetch_rate_over(link) < model.peer_rate_over(link));
    /// assert!(model.managed_copy_from_peer(link, bytes) < model.prefetch_from_peer(link, bytes));
    /// ```
    pub fn peer_copy(&self, link: PeerLink, bytes: u64) -> Duration {
        (self.peer).saturating_add(at_rate(bytes, self.peer_rate_over(link)))
    }

    /// The rate of prefetches of managed memory from one device to another, in bytes a second.
    pub fn peer_prefetch_rate_over(&self, link: PeerLink) -> f64 {
        match link {
            PeerLink::NvLink => self.peer_prefetch_rate,
            PeerLink::Pcie => self.prefetch_to_device_rate,
            // The pages go to the host, and then to the device.
            PeerLink::Host => {
                1.0 / (1.0 / self.prefetch_to_host_rate + 1.0 / self.prefetch_to_device_rate)
            }
        }
    }

    /// The time of a prefetch that moves all of a range of managed memory from one device to another.
    pub fn prefetch_from_peer(&self, link: PeerLink, bytes: u64) -> Duration {
        (self.peer_prefetch).saturating_add(at_rate(bytes, self.peer_prefetch_rate_over(link)))
    }

    /// The time in which the contents of managed memory move to a block on another device: a copy between the devices, and behind each
    /// piece one into the block.
    pub fn managed_copy_from_peer(&self, link: PeerLink, bytes: u64) -> Duration {
        self.peer_copy(link, bytes) + self.prefetch + self.copy + 2 * self.copy_managed
    }

    /// The bytes that each of several neighbours of a device carries if a copy between pinned memory and the device also takes their links
    /// to the host, so that all parts end together. 0 if this is not faster.
    ///
    /// ```
    /// use cuda_um_cost::{CostModel, PeerLink};
    /// let (model, bytes) = (CostModel::h200(), 256 << 20);
    /// let share = model.relayed_bytes(PeerLink::NvLink, 1, bytes) as f64 / bytes as f64;
    /// assert!((0.45..0.5).contains(&share), "{share}");
    /// assert_eq!(model.relayed_bytes(PeerLink::NvLink, 1, 1 << 20), 0, "it takes longer to set up");
    /// assert_eq!(model.relayed_bytes(PeerLink::Pcie, 1, bytes), 0, "the device's link carries all");
    /// ```
    pub fn relayed_bytes(&self, link: PeerLink, neighbours: u32, bytes: u64) -> u64 {
        if neighbours == 0 || link != PeerLink::NvLink {
            return 0;
        }
        // A part is first with the neighbour, then passes it on; all parts may share the device's port.
        let (host, peer) = (self.pinned_rate, self.peer_rate);
        let relay = (1.0 / (1.0 / host + 1.0 / peer)).min(peer / f64::from(neighbours));
        let together = host + f64::from(neighbours) * relay;
        let setup = self.copy + self.peer + 8 * self.enqueue;
        let relayed = setup.saturating_add(at_rate(bytes, together));
        let direct = self.copy.saturating_add(at_rate(bytes, host));
        match relayed.as_secs_f64() * RELAY_GAIN < direct.as_secs_f64() {
            true => (bytes as f64 * relay / together) as u64,
            false => 0,
        }
    }
}
