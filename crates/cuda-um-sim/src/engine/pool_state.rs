//! A memory pool, as the state holds it.

use std::collections::BTreeSet;

use super::status::Code;

/// A pool's number attribute, under its CUDA number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolAttribute {
    /// 1, 2, 3: reuse policies, flags.
    Reuse(usize),
    /// 4
    ReleaseThreshold,
    /// 5
    ReservedCurrent,
    /// 6
    ReservedHigh,
    /// 7
    UsedCurrent,
    /// 8
    UsedHigh,
}

impl PoolAttribute {
    pub(crate) fn from_raw(raw: u32) -> Result<PoolAttribute, Code> {
        Ok(match raw {
            1..=3 => PoolAttribute::Reuse(raw as usize - 1),
            4 => PoolAttribute::ReleaseThreshold,
            5 => PoolAttribute::ReservedCurrent,
            6 => PoolAttribute::ReservedHigh,
            7 => PoolAttribute::UsedCurrent,
            8 => PoolAttribute::UsedHigh,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

/// A pool grows in steps of this.
pub(super) const STEP: u64 = 2 << 20;

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) managed: bool,
    pub(super) default: bool,
    pub(super) reuse: [u64; 3],
    pub(super) release_threshold: u64,
    pub(super) reserved: u64,
    pub(super) reserved_high: u64,
    pub(super) used: u64,
    pub(super) used_high: u64,
    pub(super) max_bytes: u64,
    /// Other devices that may use its memory.
    pub(super) readers: BTreeSet<usize>,
    /// Destroyed while allocations were alive: ends with the last of them.
    pub(super) dying: bool,
}

impl Pool {
    pub(crate) fn default_of(device: usize) -> Pool {
        Pool {
            default: true,
            ..Pool::new(device, false, 0)
        }
    }

    /// A pool of a device; `max_bytes` 0 means no limit of its own.
    pub(crate) fn new(device: usize, managed: bool, max_bytes: u64) -> Pool {
        Pool {
            device,
            managed,
            default: false,
            reuse: [1; 3],
            release_threshold: 0,
            reserved: 0,
            reserved_high: 0,
            used: 0,
            used_high: 0,
            max_bytes,
            readers: BTreeSet::new(),
            dying: false,
        }
    }

    /// Lets another device use the pool's memory, or not.
    pub(crate) fn set_access(&mut self, device: usize, allowed: bool) {
        if allowed {
            self.readers.insert(device);
        } else {
            self.readers.remove(&device);
        }
    }

    /// Whether another device may use the pool's memory.
    pub(crate) fn accessible_from(&self, device: usize) -> bool {
        self.readers.contains(&device)
    }

    pub(crate) fn get(&self, attribute: PoolAttribute) -> u64 {
        match attribute {
            PoolAttribute::Reuse(index) => self.reuse[index],
            PoolAttribute::ReleaseThreshold => self.release_threshold,
            PoolAttribute::ReservedCurrent => self.reserved,
            PoolAttribute::ReservedHigh => self.reserved_high,
            PoolAttribute::UsedCurrent => self.used,
            PoolAttribute::UsedHigh => self.used_high,
        }
    }

    pub(crate) fn set(&mut self, attribute: PoolAttribute, value: u64) -> Result<(), Code> {
        match attribute {
            PoolAttribute::Reuse(index) => self.reuse[index] = value,
            PoolAttribute::ReleaseThreshold => self.release_threshold = value,
            // High-water marks can only be reset.
            PoolAttribute::ReservedHigh if value == 0 => self.reserved_high = self.reserved,
            PoolAttribute::UsedHigh if value == 0 => self.used_high = self.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}
