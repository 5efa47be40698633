//! Memory pools of the driver.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys as sys;
use std::ptr::NonNull;

/// A memory pool of the driver, with the kind of its memory.
#[derive(Clone, Copy)]
pub(crate) struct MemPool {
    pub(crate) raw: sys::cudaMemPool_t,
    memory: sys::cudaMemAllocationType,
}

/// A pool without memory, for the next owner on its device.
pub(super) struct SparePool {
    ordinal: u32,
    pool: MemPool,
}

// SAFETY: a pool may be used from any thread; the handle is only passed to CUDA.
unsafe impl Send for SparePool {}

impl Api {
    /// Returns a pool of the device's memory, or of managed memory that is first located there, for this process only: a retired one, or a
    /// new one.
    pub(crate) fn mem_pool(
        &self,
        ordinal: u32,
        memory: sys::cudaMemAllocationType,
    ) -> Result<MemPool> {
        let mut spares = self.spare_pools.lock();
        let fits = |spare: &SparePool| spare.ordinal == ordinal && spare.pool.memory == memory;
        if let Some(index) = spares.iter().position(fits) {
            return Ok(spares.swap_remove(index).pool);
        }
        drop(spares);
        // Zeros: no handles to export, no limit; the other fields are reserved.
        let properties = sys::cudaMemPoolProps {
            allocType: memory,
            location: crate::Location::Device(ordinal).to_sys(),
            ..Default::default()
        };
        let mut raw = std::ptr::null_mut();
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on(ordinal, "cudaMemPoolCreate", subject, |table| {
            // SAFETY: the first pointer is valid for one write, the second for one read.
            unsafe { (table.cudaMemPoolCreate)(&mut raw, &properties) }
        })?;
        Ok(MemPool { raw, memory })
    }

    /// Releases the memory of a pool, and keeps the pool for the next call of [`mem_pool`](Self::mem_pool).
    ///
    /// No pool is destroyed before the runtime ends: with driver 580, `cudaMemPoolDestroy` beside `cudaStreamSynchronize` of another thread,
    /// on the stream of the pool's frees, corrupts the driver's memory, although the frees are complete
    /// (docs/results/h100-cuda-13.0/pool-destroy.txt).
    ///
    /// # Safety
    ///
    /// The pool is live and has one owner, which does not use it again. All its allocations are freed.
    pub(crate) unsafe fn mem_pool_retire(&self, ordinal: u32, pool: MemPool) -> Result<()> {
        // SAFETY: the pool is live.
        let trimmed = unsafe { self.mem_pool_trim(ordinal, pool.raw, 0) };
        self.spare_pools.lock().push(SparePool { ordinal, pool });
        trimmed
    }

    /// Destroys the retired pools.
    pub(super) fn destroy_spare_pools(&mut self) {
        for SparePool { ordinal, pool } in std::mem::take(&mut *self.spare_pools.lock()) {
            let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
            let destroyed = self.on_release(ordinal, "cudaMemPoolDestroy", subject, |table| {
                // SAFETY: the pool is live and has no owner.
                unsafe { (table.cudaMemPoolDestroy)(pool.raw) }
            });
            if let Err(error) = destroyed {
                crate::telemetry::warn!(device = ordinal, %error, "a memory pool could not be destroyed");
            }
        }
    }

    /// Releases free memory of the pool, so that at least `keep` bytes stay reserved.
    ///
    /// # Safety
    ///
    /// The pool is live.
    pub(crate) unsafe fn mem_pool_trim(
        &self,
        ordinal: u32,
        pool: sys::cudaMemPool_t,
        keep: usize,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on(ordinal, "cudaMemPoolTrimTo", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe { (table.cudaMemPoolTrimTo)(pool, keep) }
        })
    }

    /// # Safety
    ///
    /// The pool is live, and the attribute has 64 bits.
    pub(crate) unsafe fn mem_pool_set(
        &self,
        ordinal: u32,
        pool: sys::cudaMemPool_t,
        attribute: sys::cudaMemPoolAttr,
        mut value: u64,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on(ordinal, "cudaMemPoolSetAttribute", subject, |table| {
            // SAFETY: guaranteed by the caller; the value is valid for one read.
            unsafe { (table.cudaMemPoolSetAttribute)(pool, attribute, (&raw mut value).cast()) }
        })
    }

    /// # Safety
    ///
    /// The pool is live, and the attribute has 64 bits.
    pub(crate) unsafe fn mem_pool_get(
        &self,
        ordinal: u32,
        pool: sys::cudaMemPool_t,
        attribute: sys::cudaMemPoolAttr,
    ) -> Result<u64> {
        let mut value = 0u64;
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on(ordinal, "cudaMemPoolGetAttribute", subject, |table| {
            // SAFETY: guaranteed by the caller; the value is valid for one write.
            unsafe { (table.cudaMemPoolGetAttribute)(pool, attribute, (&raw mut value).cast()) }
        })?;
        Ok(value)
    }

    /// Allocates memory that later work on the stream may use.
    ///
    /// # Safety
    ///
    /// The pool and the stream are live and belong to the device.
    pub(crate) unsafe fn malloc_from_pool(
        &self,
        ordinal: u32,
        pool: sys::cudaMemPool_t,
        bytes: usize,
        stream: sys::cudaStream_t,
    ) -> Result<NonNull<u8>> {
        let mut pointer = std::ptr::null_mut();
        let subject =
            || Subject::new(format_args!("pooled memory of device {ordinal}")).bytes(bytes);
        self.on(ordinal, "cudaMallocFromPoolAsync", subject, |table| {
            // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
            unsafe { (table.cudaMallocFromPoolAsync)(&mut pointer, bytes, pool, stream) }
        })?;
        self.allocated("cudaMallocFromPoolAsync", pointer, bytes)
    }

    /// Frees memory in stream order.
    ///
    /// # Safety
    ///
    /// The memory is from `malloc_from_pool`, is freed once, and is used only by work that is ordered before this free. The stream is
    /// live.
    pub(crate) unsafe fn free_async(
        &self,
        ordinal: u32,
        pointer: NonNull<u8>,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("pooled memory of device {ordinal}"));
        self.on_release(ordinal, "cudaFreeAsync", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe { (table.cudaFreeAsync)(pointer.as_ptr().cast(), stream) }
        })
    }
}
