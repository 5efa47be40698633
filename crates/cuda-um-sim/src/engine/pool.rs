//! Memory pools.

use std::collections::{BTreeMap, BTreeSet};

use super::device::Devices;
use super::handle::Handles;
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

/// What a pool's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    Device,
    Managed,
    /// Pinned memory.
    Host,
}

/// A pool grows in steps of this many bytes.
const STEP: u64 = 2 << 20;

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) home: Home,
    default: bool,
    reuse: [u64; 3],
    release_threshold: u64,
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    max_bytes: u64,
    /// Other devices that may use its memory.
    readers: BTreeSet<usize>,
    /// It was destroyed while it had allocations, and ends with the last of them.
    dying: bool,
}

impl Pool {
    pub(crate) fn default_of(device: usize) -> Pool {
        Pool {
            default: true,
            ..Pool::new(device, Home::Device, 0)
        }
    }

    /// A pool of a device; with `max_bytes` 0 it has no limit of its own.
    pub(crate) fn new(device: usize, home: Home, max_bytes: u64) -> Pool {
        Pool {
            device,
            home,
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

    /// Allows or forbids another device to use the pool's memory.
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

/// All pools of one simulator, by handle.
pub(crate) struct Pools {
    handles: Handles,
    pools: BTreeMap<usize, Pool>,
    /// The default pool and the current one of managed memory and of the host, by place.
    places: BTreeMap<PoolPlace, [usize; 2]>,
}

/// The memory of a pool, and the type and the id of the location that it prefers.
pub(crate) type PoolPlace = (bool, u32, i32);

/// An allocation that a pool has room for.
pub(crate) struct Growth {
    pub(crate) device: usize,
    pub(crate) home: Home,
    used: u64,
    reserved: u64,
    /// Bytes by which the pool's reserve of device memory grows.
    pub(crate) added: u64,
}

impl Pools {
    pub(crate) fn new(handles: Handles) -> Pools {
        Pools {
            handles,
            pools: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, pool: Pool) -> usize {
        let handle = self.handles.fresh();
        self.pools.insert(handle, pool);
        handle
    }

    /// The default pool and the current one of a place that is not the memory of a device.
    pub(crate) fn of_place(&mut self, place: PoolPlace) -> &mut [usize; 2] {
        if !self.places.contains_key(&place) {
            let home = if place.0 { Home::Managed } else { Home::Host };
            let mut pool = Pool::new(if place.1 == 1 { place.2 as usize } else { 0 }, home, 0);
            pool.default = true;
            let pool = self.add(pool);
            self.places.insert(place, [pool; 2]);
        }
        self.places.entry(place).or_default()
    }

    /// The number of pools that the program created. A destroyed pool counts until its last allocation is freed.
    pub(crate) fn created(&self) -> usize {
        self.pools.values().filter(|pool| !pool.default).count()
    }

    pub(crate) fn get(&mut self, handle: usize) -> Result<&mut Pool, Code> {
        self.pools
            .get_mut(&handle)
            .filter(|pool| !pool.dying)
            .ok_or(Code::INVALID_VALUE)
    }

    /// Whether a device that does not own the pool's memory may use it.
    pub(crate) fn allows(&self, handle: usize, device: usize) -> bool {
        self.pools
            .get(&handle)
            .is_some_and(|pool| pool.accessible_from(device))
    }

    /// Destroys a pool, at once or with its last allocation. A device that used it goes back to its default pool.
    pub(crate) fn destroy(&mut self, handle: usize, devices: &mut Devices) -> Result<(), Code> {
        let pool = self.get(handle)?;
        if pool.default {
            return Err(Code::INVALID_VALUE);
        }
        pool.dying = true;
        pool.release_threshold = 0;
        for device in devices.iter_mut() {
            if device.pool == handle {
                device.pool = device.default_pool;
            }
        }
        for [default, current] in self.places.values_mut() {
            if *current == handle {
                *current = *default;
            }
        }
        self.trim(handle, 0, devices);
        Ok(())
    }

    /// Releases the memory that a pool has reserved beyond `keep` bytes and does not use.
    pub(crate) fn trim(&mut self, handle: usize, keep: u64, devices: &mut Devices) {
        let Some(pool) = self.pools.get_mut(&handle) else {
            return;
        };
        let kept = pool
            .reserved
            .min(pool.used.next_multiple_of(STEP).max(keep));
        let released = pool.reserved - kept;
        pool.reserved = kept;
        if pool.home == Home::Device {
            devices[pool.device].explicit_bytes -= released;
        }
        if pool.dying && pool.used == 0 {
            self.pools.remove(&handle);
        }
    }

    /// Checks that a pool may have `bytes` more in use.
    pub(crate) fn growth(&mut self, handle: usize, bytes: usize) -> Result<Growth, Code> {
        let pool = self.get(handle)?;
        let used = pool.used + bytes as u64;
        if pool.max_bytes > 0 && used > pool.max_bytes {
            return Err(Code::MEMORY_ALLOCATION);
        }
        let reserved = pool.reserved.max(used.next_multiple_of(STEP));
        let added = match pool.home {
            Home::Device => reserved - pool.reserved,
            Home::Managed | Home::Host => 0,
        };
        Ok(Growth {
            device: pool.device,
            home: pool.home,
            used,
            reserved,
            added,
        })
    }

    /// Records an allocation that was made.
    pub(crate) fn grow(&mut self, handle: usize, growth: &Growth) {
        if let Ok(pool) = self.get(handle) {
            pool.used = growth.used;
            pool.used_high = pool.used_high.max(growth.used);
            pool.reserved = growth.reserved;
            pool.reserved_high = pool.reserved_high.max(growth.reserved);
        }
    }

    /// An allocation of `bytes` bytes was freed.
    pub(crate) fn release(&mut self, handle: usize, bytes: usize, devices: &mut Devices) {
        let Some(pool) = self.pools.get_mut(&handle) else {
            return;
        };
        pool.used -= bytes as u64;
        let threshold = pool.release_threshold;
        self.trim(handle, threshold, devices);
    }
}
