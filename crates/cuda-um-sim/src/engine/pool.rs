//! Memory pools and stream-ordered allocation.

use std::sync::Arc;

use super::core::Core;
use super::pool_state::{Pool, STEP};
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};

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
