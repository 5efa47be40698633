//! Memory pools of the driver.

use crate::driver::api::Api;
use crate::driver::call::calls;
use crate::driver::memory::filled;
use crate::error::Result;
use cuda_um_sys::{self as sys, cudaMemPool_t, cudaStream_t as Stream};
use std::ffi::c_void;
use std::ptr::NonNull;

/// A memory pool of the driver, with the kind of its memory and its limit.
#[derive(Clone, Copy)]
pub(crate) struct MemPool {
    pub(crate) raw: cudaMemPool_t,
    of: (sys::cudaMemAllocationType, usize),
}

/// A pool without memory, for the next owner on its device.
pub(super) struct SparePool {
    ordinal: u32,
    pool: MemPool,
}

// SAFETY: a pool may be used from any thread; the handle is only passed to CUDA.
unsafe impl Send for SparePool {}

calls! {
    safe fn create_mem_pool(ordinal, properties: &sys::cudaMemPoolProps) -> raw: cudaMemPool_t
        => runtime.cudaMemPoolCreate(&mut raw, properties),
        of ("a memory pool of device {ordinal}");

    /// # Safety: the pool is live, has no owner, and is destroyed once.
    unsafe fn destroy_mem_pool(ordinal, pool: cudaMemPool_t)
        => [Releases] runtime.cudaMemPoolDestroy(pool),
        of ("a memory pool of device {ordinal}");

    /// Releases free memory of the pool, so that at least `keep` bytes stay reserved.
    /// # Safety: the pool is live.
    unsafe fn mem_pool_trim(ordinal, pool: cudaMemPool_t, keep: usize)
        => runtime.cudaMemPoolTrimTo(pool, keep),
        of ("a memory pool of device {ordinal}");

    /// # Safety: the pool is live, and the attribute has 64 bits.
    unsafe fn mem_pool_set(
        ordinal,
        pool: cudaMemPool_t,
        attribute: sys::cudaMemPoolAttr,
        value: u64,
    )
        => runtime.cudaMemPoolSetAttribute(pool, attribute, (&raw const value).cast_mut().cast()),
        of ("a memory pool of device {ordinal}");

    /// # Safety: the pool is live, and the attribute has 64 bits.
    unsafe fn mem_pool_get(ordinal, pool: cudaMemPool_t, attribute: sys::cudaMemPoolAttr)
        -> value: u64
        => runtime.cudaMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()),
        of ("a memory pool of device {ordinal}");

    /// Allocates memory that later work on the stream may use.
    /// # Safety: the pool and the stream are live and belong to the device.
    unsafe fn malloc_from_pool(ordinal, pool: cudaMemPool_t, bytes: usize, stream: Stream)
        -> pointer: *mut c_void as NonNull<u8> = filled("cudaMallocFromPoolAsync", pointer, bytes)
        => runtime.cudaMallocFromPoolAsync(&mut pointer, bytes, pool, stream),
        of ("pooled memory of device {ordinal}").bytes(bytes);

    /// Frees memory in stream order.
    /// # Safety: the memory is from `malloc_from_pool`, is freed once, and is used only by work that is ordered before this free. The
    /// stream is live.
    unsafe fn free_async(ordinal, pointer: NonNull<u8>, stream: Stream)
        => [Releases] runtime.cudaFreeAsync(pointer.as_ptr().cast(), stream),
        of ("pooled memory of device {ordinal}");
}

impl Api {
    /// Returns a pool of the device's memory, or of managed memory that is first located there, for this process only: a retired one, or a
    /// new one. It has at most `max_bytes`, if that is not 0, which managed memory and versions before CUDA 12.2 need.
    pub(crate) fn mem_pool(
        &self,
        ordinal: u32,
        memory: sys::cudaMemAllocationType,
        max_bytes: usize,
    ) -> Result<MemPool> {
        let of = (memory, max_bytes);
        let mut spares = self.spare_pools.lock();
        let fits = |spare: &SparePool| spare.ordinal == ordinal && spare.pool.of == of;
        if let Some(index) = spares.iter().position(fits) {
            return Ok(spares.swap_remove(index).pool);
        }
        drop(spares);
        // Zeros: no handles to export; the other fields are reserved.
        let properties = sys::cudaMemPoolProps {
            allocType: memory,
            location: crate::Location::Device(ordinal).to_sys(),
            maxSize: max_bytes,
            ..Default::default()
        };
        let raw = self.create_mem_pool(ordinal, &properties)?;
        Ok(MemPool { raw, of })
    }

    /// Releases the memory of a pool, and keeps the pool for the next call of [`mem_pool`](Self::mem_pool).
    ///
    /// No pool is destroyed before the runtime ends: with driver 580, `cudaMemPoolDestroy` beside `cudaStreamSynchronize` of another thread,
    /// on the stream of the pool's frees, corrupts the driver's memory, although the frees are complete
    /// (docs/results/h100-cuda-13.0/pool-destroy.txt).
    /// # Safety: the pool is live and has one owner, which does not use it again. All its allocations are freed.
    pub(crate) unsafe fn mem_pool_retire(&self, ordinal: u32, pool: MemPool) -> Result<()> {
        // SAFETY: the pool is live.
        let trimmed = unsafe { self.mem_pool_trim(ordinal, pool.raw, 0) };
        self.spare_pools.lock().push(SparePool { ordinal, pool });
        trimmed
    }

    pub(super) fn destroy_spare_pools(&mut self) {
        for SparePool { ordinal, pool } in std::mem::take(&mut *self.spare_pools.lock()) {
            // SAFETY: the pool is live and has no owner.
            let destroyed = unsafe { self.destroy_mem_pool(ordinal, pool.raw) };
            if let Err(error) = destroyed {
                crate::telemetry::warn!(device = ordinal, %error, "a memory pool could not be destroyed");
            }
        }
    }
}
