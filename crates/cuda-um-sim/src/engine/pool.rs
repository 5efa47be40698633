//! Memory pools and stream-ordered allocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::core::Core;
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};

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
const STEP: u64 = 2 << 20;

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) managed: bool,
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
    /// Destroyed while allocations were alive: ends with the last of them.
    dying: bool,
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

impl State {
    pub(crate) fn add_pool(&mut self, pool: Pool) -> usize {
        let handle = self.handle();
        self.pools.insert(handle, pool);
        handle
    }

    pub(crate) fn pool(&mut self, handle: usize) -> Result<&mut Pool, Code> {
        self.pools
            .get_mut(&handle)
            .filter(|pool| !pool.dying)
            .ok_or(Code::INVALID_VALUE)
    }

    /// Destroys a pool, at once or with its last allocation; a device that used it goes back to its default.
    pub(crate) fn destroy_pool(&mut self, handle: usize) -> Result<(), Code> {
        let pool = self.pool(handle)?;
        if pool.default {
            return Err(Code::INVALID_VALUE);
        }
        pool.dying = true;
        pool.release_threshold = 0;
        for device in &mut self.devices {
            if device.pool == handle {
                device.pool = device.default_pool;
            }
        }
        self.trim(handle, 0);
        Ok(())
    }

    /// Gives back what a pool holds beyond `keep` bytes and does not use.
    pub(crate) fn trim(&mut self, handle: usize, keep: u64) {
        let Some(pool) = self.pools.get_mut(&handle) else {
            return;
        };
        let kept = pool
            .reserved
            .min(pool.used.next_multiple_of(STEP).max(keep));
        let released = pool.reserved - kept;
        pool.reserved = kept;
        if !pool.managed {
            self.devices[pool.device].explicit_bytes -= released;
        }
        if pool.dying && pool.used == 0 {
            self.pools.remove(&handle);
        }
    }

    /// Allocates from a pool, stream-ordered: the memory may be used on the stream from here on.
    pub(crate) fn pool_allocate(
        &mut self,
        machine: &Machine,
        handle: usize,
        bytes: usize,
    ) -> Result<usize, Code> {
        let pool = self.pool(handle)?.clone();
        let used = pool.used + bytes as u64;
        if pool.max_bytes > 0 && used > pool.max_bytes {
            return Err(Code::MEMORY_ALLOCATION);
        }
        let reserved = pool.reserved.max(used.next_multiple_of(STEP));
        if !pool.managed {
            self.make_room(machine, pool.device, reserved - pool.reserved, None)?;
        }
        let base = self.allocate_from_pool(machine, bytes, pool.device, handle, pool.managed)?;
        if !pool.managed {
            self.devices[pool.device].explicit_bytes += reserved - pool.reserved;
        }
        let pool = self.pool(handle)?;
        pool.used = used;
        pool.used_high = pool.used_high.max(used);
        pool.reserved = reserved;
        pool.reserved_high = pool.reserved_high.max(reserved);
        Ok(base)
    }

    /// Gives an allocation's bytes back to its pool.
    pub(crate) fn pool_release(&mut self, handle: usize, bytes: usize) {
        let Some(pool) = self.pools.get_mut(&handle) else {
            return;
        };
        pool.used -= bytes as u64;
        let threshold = pool.release_threshold;
        self.trim(handle, threshold);
    }

    /// Frees any allocation and settles with its pool.
    pub(crate) fn free(&mut self, machine: &Machine, base: usize) {
        let Some(allocation) = self.allocations.get(&base) else {
            return;
        };
        let (pool, bytes) = (allocation.pool, allocation.bytes);
        self.release(machine, base);
        if let Some(pool) = pool {
            self.pool_release(pool, bytes);
        }
    }

    /// Frees an allocation when the stream gets there.
    pub(crate) fn free_async(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        base: usize,
    ) -> Result<Arc<Completion>, Code> {
        let enqueued = self.handle();
        self.freeable(base)?.freeing = Some(enqueued);
        self.now += core.machine.cost.pool_alloc;
        let work = Box::new(move |core: &Arc<Core>, start| {
            core.state.lock().free(&core.machine, base);
            start
        });
        Ok(self.enqueue(core, stream, Vec::new(), work))
    }
}
