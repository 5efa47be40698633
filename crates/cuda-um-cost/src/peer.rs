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
    /// // Of managed memory a prefetch is slower.
    /// assert!(model.peer_prefetch_rate_over(link) < model.peer_rate_over(link));
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
}
