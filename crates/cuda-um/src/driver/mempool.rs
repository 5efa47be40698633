//! Memory pools of the driver.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys as sys;
use std::ptr::NonNull;

impl Api {
    /// Creates a pool of the device's memory, or of managed memory that is first located there, for this process only.
    pub(crate) fn mem_pool_create(
        &self,
        ordinal: u32,
        memory: sys::cudaMemAllocationType,
    ) -> Result<sys::cudaMemPool_t> {
        // Zeros: no handles to export, no limit; the other fields are reserved.
        let properties = sys::cudaMemPoolProps {
            allocType: memory,
            location: crate::Location::Device(ordinal).to_sys(),
            ..Default::default()
        };
        let mut pool = std::ptr::null_mut();
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on(ordinal, "cudaMemPoolCreate", subject, |table| {
            // SAFETY: the first pointer is valid for one write, the second for one read.
            unsafe { (table.cudaMemPoolCreate)(&mut pool, &properties) }
        })?;
        Ok(pool)
    }

    /// # Safety
    ///
    /// The pool is live and destroyed once. All its allocations are freed, or their frees are enqueued on streams.
    pub(crate) unsafe fn mem_pool_destroy(
        &self,
        ordinal: u32,
        pool: sys::cudaMemPool_t,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("a memory pool of device {ordinal}"));
        self.on_release(ordinal, "cudaMemPoolDestroy", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe { (table.cudaMemPoolDestroy)(pool) }
        })
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
