//! Times of migrations of managed memory: by faults, and by prefetches.

use crate::{CostModel, at_rate};
use std::time::Duration;

/// The page of a fault, and the largest block that faults complete.
const LEAF: u64 = 64 << 10;
const BLOCK: u64 = 2 << 20;
/// The blocks of which a device serves the faults in one group.
const BLOCKS_OF_A_GROUP: u64 = 4;

/// Page faults: how many are raised, and in how many groups the driver serves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Faults raised.
    pub faults: u64,
    /// Groups that are served together: on the host each fault is one.
    pub groups: u64,
}

/// Faults of a part of a block that has so many bytes: after each fault, the driver completes dense neighbourhoods.
fn steps(bytes: u64) -> u64 {
    u64::from(bytes.div_ceil(LEAF).max(1).next_power_of_two().ilog2())
}

impl Faults {
    /// The faults of a kernel that uses all of a contiguous range of bytes, of which nothing is on the device.
    pub fn of_device(bytes: u64) -> Self {
        let (blocks, rest) = (bytes / BLOCK, bytes % BLOCK);
        let of_rest = match rest {
            0 => 0,
            1..=LEAF => 1,
            _ => 2 * steps(rest),
        };
        let groups = match blocks {
            0 => steps(rest).max(u64::from(rest > 0)),
            _ => (blocks + u64::from(rest > 0)).div_ceil(BLOCKS_OF_A_GROUP) * steps(BLOCK),
        };
        Self {
            faults: blocks * 2 * steps(BLOCK) + of_rest,
            groups,
        }
    }

    /// The faults of a host thread that uses all of a contiguous range of bytes, of which nothing is on the host.
    pub fn of_host(bytes: u64) -> Self {
        let (blocks, rest) = (bytes / BLOCK, bytes % BLOCK);
        let of_rest = match rest {
            0 => 0,
            _ => steps(rest) + 1,
        };
        let faults = blocks * (steps(BLOCK) + 1) + of_rest;
        Self {
            faults,
            groups: faults,
        }
    }
}

impl CostModel {
    /// The time of a kernel's faults over a contiguous range ([`Faults::of_device`]).
    ///
    /// ```
    /// use cuda_um_cost::{CostModel, Faults};
    /// let (model, bytes) = (CostModel::h200(), 16 << 20);
    /// let measured = 1919.0; // us
    /// let time = model.device_faults(bytes).as_secs_f64() * 1e6;
    /// assert!((time / measured - 1.0).abs() < 0.05, "{time} us");
    ///
    /// assert!(model.prefetch_to_device(bytes) < model.device_faults(bytes));
    /// assert!(model.prefetch_to_host(bytes) < model.host_faults(bytes));
    /// assert!(Faults::of_device(bytes).groups < Faults::of_host(bytes).groups);
    /// ```
    pub fn device_faults(&self, bytes: u64) -> Duration {
        let Faults { faults, groups } = Faults::of_device(bytes);
        times(self.gpu_fault, faults)
            .saturating_add(times(self.gpu_fault_group, groups))
            .saturating_add(at_rate(bytes, self.fault_rate))
    }

    /// The time of a host thread's faults over a contiguous range ([`Faults::of_host`]).
    pub fn host_faults(&self, bytes: u64) -> Duration {
        times(self.cpu_fault, Faults::of_host(bytes).faults)
            .saturating_add(at_rate(bytes, self.fault_rate))
    }

    /// The time of a prefetch that moves all of a range to the device.
    pub fn prefetch_to_device(&self, bytes: u64) -> Duration {
        (self.prefetch).saturating_add(at_rate(bytes, self.prefetch_to_device_rate))
    }

    /// The time of a prefetch that moves all of a range to the host.
    pub fn prefetch_to_host(&self, bytes: u64) -> Duration {
        (self.prefetch).saturating_add(at_rate(bytes, self.prefetch_to_host_rate))
    }
}

fn times(each: Duration, count: u64) -> Duration {
    each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}
