//! A driver pool: device memory that is allocated and freed in stream order.
#![allow(unsafe_code, reason = "owns the driver's pool by its handle")]

use crate::context::device::Device;
use crate::context::enqueue::enqueue;
use crate::context::reclaim::Deferred;
use crate::context::stream::Stream;
use crate::context::tracker::Use;
use crate::error::{Error, Result};
use crate::resource::pool::{PoolOptions, PoolStats, beyond_limit};
use crate::sync::Mutex;
use cuda_um_sys::{cudaMemPool_t, cudaMemPoolAttr};
use std::ptr::NonNull;
use std::sync::Arc;

/// A driver pool. All its allocations and frees are enqueued on one stream.
pub(crate) struct DriverPool {
    device: Device,
    /// The device's default stream.
    stream: Stream,
    options: PoolOptions,
    raw: Handle,
    live: Mutex<Live>,
}

struct Handle(cudaMemPool_t);

// SAFETY: CUDA's pools may be used from any thread; the handle is only passed to CUDA.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The memory that buffers own.
#[derive(Default)]
struct Live {
    buffers: usize,
    bytes: usize,
    peak_bytes: usize,
}

/// A buffer's part of the pool, counted until it is dropped.
pub(crate) struct DriverBlock {
    pool: Arc<DriverPool>,
    bytes: usize,
    /// True if the block stays counted when it is dropped.
    is_kept: bool,
}

/// The result of a free.
pub(crate) enum Freed {
    /// The free is enqueued.
    InOrder,
    /// The free could not be ordered after the uses, so nothing was freed.
    NotOrdered(Error),
    /// CUDA refused the free. The memory may or may not be freed.
    Failed(Error),
}

/// The unit in which blocks are counted, in bytes; CUDA aligns blocks at least to it.
const GRAIN: usize = 256;

impl DriverPool {
    pub(super) fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        let stream = device.default_stream()?;
        let raw = device.api().mem_pool_create(device.ordinal())?;
        // Owns the handle from here on, also if the next call fails.
        let pool = Self {
            device: device.clone(),
            stream,
            options,
            raw: Handle(raw),
            live: Mutex::default(),
        };
        // By default the driver releases all free memory at each synchronization of a stream.
        let keep = options.limit_bytes.map_or(u64::MAX, |limit| limit as u64);
        let threshold = cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
        // SAFETY: the pool is live; the attribute has 64 bits.
        unsafe {
            let api = device.api();
            api.mem_pool_set(device.ordinal(), pool.raw.0, threshold, keep)?;
        }
        Ok(pool)
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Allocates `bytes`, which is not 0. The allocation is work on the pool's stream, which the returned use covers.
    pub(super) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
    ) -> Result<(NonNull<u8>, DriverBlock, Use)> {
        let block = self.charge(bytes.next_multiple_of(GRAIN))?;
        self.device.reclaim().give_way();
        let pointer = match self.malloc(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                self.make_room();
                self.malloc(bytes)?
            }
            result => result?,
        };
        {
            // Count after the allocation: a refused one was never live.
            let mut live = self.live.lock();
            live.peak_bytes = live.peak_bytes.max(live.bytes);
        }
        let stream = Arc::clone(self.stream.inner());
        // Numbered after it was enqueued, so this covers the allocation.
        let seq = stream.submitted();
        Ok((pointer, block, Use { stream, seq }))
    }

    fn malloc(&self, bytes: usize) -> Result<NonNull<u8>> {
        let mut pointer = NonNull::dangling();
        enqueue(&self.stream, std::iter::empty(), || {
            let (api, ordinal) = (self.device.api(), self.device.ordinal());
            // SAFETY: the pool and the stream are live.
            pointer =
                unsafe { api.malloc_from_pool(ordinal, self.raw.0, bytes, self.stream.as_raw()) }?;
            Ok(())
        })?;
        Ok(pointer)
    }

    fn charge(self: &Arc<Self>, bytes: usize) -> Result<DriverBlock> {
        let mut live = self.live.lock();
        let limit = self.options.limit_bytes.unwrap_or(usize::MAX);
        let room = limit.saturating_sub(live.bytes);
        if bytes > room {
            drop(live);
            let (call, what) = ("cudaMallocFromPoolAsync", "device memory");
            let sizes = (bytes, room);
            return Err(beyond_limit(call, what, &self.device, &self.options, sizes));
        }
        live.buffers += 1;
        live.bytes += bytes;
        Ok(DriverBlock {
            pool: Arc::clone(self),
            bytes,
            is_kept: false,
        })
    }

    /// Releases memory that no buffer uses, after waiting for its frees.
    fn make_room(&self) {
        self.device.reclaim().flush();
        // If this fails, memory whose free is pending is not released.
        if let Err(error) = self.stream.synchronize() {
            crate::telemetry::warn!(%error, "the frees of a pool could not be waited for");
        }
        self.trim();
    }

    /// Releases the memory that is free now. Returns the released bytes.
    pub(super) fn trim(&self) -> usize {
        let before = self.reserved_bytes().unwrap_or(0);
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: the pool is live.
        if let Err(error) = unsafe { api.mem_pool_trim(ordinal, self.raw.0, 0) } {
            crate::telemetry::warn!(device = ordinal, %error, "a pool could not be trimmed");
        }
        before.saturating_sub(self.reserved_bytes().unwrap_or(before))
    }

    /// The bytes that the driver reserves for the pool; `None` if it does not report them.
    fn reserved_bytes(&self) -> Option<usize> {
        let reserved = cudaMemPoolAttr::cudaMemPoolAttrReservedMemCurrent;
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: the pool is live; the attribute has 64 bits.
        match unsafe { api.mem_pool_get(ordinal, self.raw.0, reserved) } {
            Ok(bytes) => usize::try_from(bytes).ok(),
            Err(error) => {
                crate::telemetry::warn!(device = ordinal, %error, "the reserved bytes of a pool could not be read");
                None
            }
        }
    }

    pub(super) fn stats(&self) -> PoolStats {
        let Live {
            buffers,
            bytes,
            peak_bytes,
        } = *self.live.lock();
        let reserved_bytes = self.reserved_bytes().unwrap_or(bytes);
        let free_bytes = reserved_bytes.saturating_sub(bytes);
        PoolStats {
            live_bytes: bytes,
            peak_bytes,
            reserved_bytes,
            free_bytes,
            live_buffers: buffers,
            slabs: 0,
            largest_free_bytes: free_bytes,
        }
    }
}

impl DriverBlock {
    /// Counts the block permanently, because its memory could not be freed.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Enqueues the free after the uses. Does not wait.
    ///
    /// # Safety
    ///
    /// `pointer` is the memory that this block was made for. It is not freed yet, and has no other uses than these.
    pub(crate) unsafe fn free_in_order(&self, pointer: NonNull<u8>, uses: &[Use]) -> Freed {
        let DriverPool { device, stream, .. } = &*self.pool;
        let mut is_ordered = false;
        let enqueued = enqueue(stream, std::iter::empty(), || {
            for used in uses {
                used.order(stream.inner())?;
            }
            is_ordered = true;
            // SAFETY: guaranteed by the caller; the stream is live, and ordered after all uses.
            unsafe {
                let api = device.api();
                api.free_async(device.ordinal(), pointer, stream.as_raw())
            }
        });
        match enqueued {
            Ok(()) => Freed::InOrder,
            Err(error) if is_ordered => Freed::Failed(error),
            Err(error) => Freed::NotOrdered(error),
        }
    }
}

impl Drop for DriverBlock {
    fn drop(&mut self) {
        if self.is_kept || self.pool.device.api().origin.is_inherited() {
            return;
        }
        let mut live = self.pool.live.lock();
        live.buffers -= 1;
        live.bytes -= self.bytes;
    }
}

impl Drop for DriverPool {
    fn drop(&mut self) {
        let (api, ordinal) = (Arc::clone(self.device.api()), self.device.ordinal());
        if api.origin.is_inherited() {
            return;
        }
        let stream = Arc::clone(self.stream.inner());
        let frees = Use {
            seq: stream.submitted(),
            stream,
        };
        let raw = Handle(self.raw.0);
        let destroy = move || {
            // Capture the whole handle, because its raw field is not `Send`.
            let handle = raw;
            // SAFETY: no handle of the pool and no buffer is live.
            unsafe { api.mem_pool_destroy(ordinal, handle.0) }
        };
        // CUDA documents that it keeps memory whose frees are pending. With driver 580 on an H200, destroying a pool before its last
        // frees had run made a later allocation from another pool crash inside the driver. So the frees are waited for.
        if frees.is_done().unwrap_or(false) {
            if let Err(error) = destroy() {
                crate::telemetry::warn!(device = ordinal, %error, "a pool could not be destroyed");
            }
            return;
        }
        self.device.reclaim().defer(Deferred {
            uses: smallvec::smallvec![frees],
            what: format!("a memory pool of device {ordinal}"),
            release: Box::new(destroy),
        });
    }
}
