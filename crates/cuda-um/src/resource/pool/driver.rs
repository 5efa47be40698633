//! A pool of the driver's: device memory that is allocated and freed in the order of a stream.
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

/// A pool of the driver's, which all allocations and frees of one stream are from.
pub(crate) struct DriverPool {
    device: Device,
    /// The device's default stream.
    stream: Stream,
    options: PoolOptions,
    raw: Handle,
    live: Mutex<Live>,
}

struct Handle(cudaMemPool_t);

// SAFETY: CUDA's pools may be used from any thread; the handle is only ever passed to CUDA.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What buffers own.
#[derive(Default)]
struct Live {
    buffers: usize,
    bytes: usize,
    peak_bytes: usize,
}

/// A buffer's part of the pool: counted until it is dropped.
pub(crate) struct DriverBlock {
    pool: Arc<DriverPool>,
    bytes: usize,
    /// Counted for good.
    is_kept: bool,
}

/// What became of a free.
pub(crate) enum Freed {
    /// It is enqueued.
    InOrder,
    /// It could not be put after the uses: nothing was freed.
    NotOrdered(Error),
    /// It was refused: nobody knows whether the memory is freed.
    Failed(Error),
}

/// Blocks are counted in multiples of this, which CUDA aligns them to at least.
const GRAIN: usize = 256;

impl DriverPool {
    pub(crate) fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        let stream = device.default_stream()?;
        let raw = device.api().mem_pool_create(device.ordinal())?;
        // Owns the handle from here on, whatever the next call says.
        let pool = Self {
            device: device.clone(),
            stream,
            options,
            raw: Handle(raw),
            live: Mutex::default(),
        };
        // By default the driver gives everything back whenever a stream is waited for.
        let keep = options.limit_bytes.map_or(u64::MAX, |limit| limit as u64);
        let threshold = cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
        // SAFETY: the pool is live; the attribute is one of 64 bits.
        unsafe {
            let api = device.api();
            api.mem_pool_set(device.ordinal(), pool.raw.0, threshold, keep)?;
        }
        Ok(pool)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Allocates so many bytes, not 0. The allocation is work on the pool's stream: the given use.
    pub(crate) fn allocate(
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
            // Not before: what is refused was never live.
            let mut live = self.live.lock();
            live.peak_bytes = live.peak_bytes.max(live.bytes);
        }
        let stream = Arc::clone(self.stream.inner());
        // Numbered after it was enqueued: this covers the allocation.
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

    /// Gives back what no buffer uses, and waits until it is free.
    fn make_room(&self) {
        self.device.reclaim().flush();
        // If this fails, what has not been freed by now is not given back.
        if let Err(error) = self.stream.synchronize() {
            crate::telemetry::warn!(%error, "the frees of a pool could not be waited for");
        }
        self.trim();
    }

    /// Gives back what is free by now. How many bytes that is.
    pub(crate) fn trim(&self) -> usize {
        let before = self.reserved_bytes().unwrap_or(0);
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: the pool is live.
        if let Err(error) = unsafe { api.mem_pool_trim(ordinal, self.raw.0, 0) } {
            crate::telemetry::warn!(device = ordinal, %error, "a pool could not be trimmed");
        }
        before.saturating_sub(self.reserved_bytes().unwrap_or(before))
    }

    /// What the driver holds for the pool; none where it does not say.
    fn reserved_bytes(&self) -> Option<usize> {
        let reserved = cudaMemPoolAttr::cudaMemPoolAttrReservedMemCurrent;
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: the pool is live; the attribute is one of 64 bits.
        match unsafe { api.mem_pool_get(ordinal, self.raw.0, reserved) } {
            Ok(bytes) => usize::try_from(bytes).ok(),
            Err(error) => {
                crate::telemetry::warn!(device = ordinal, %error, "a pool does not say what it holds");
                None
            }
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
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
    /// Counts it for good: the memory could not be freed.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Enqueues the free after the uses. Waits for nothing.
    ///
    /// # Safety
    ///
    /// `pointer` is the memory that this block was made for; it is not freed yet, and used by nobody but these uses.
    pub(crate) unsafe fn free_in_order(&self, pointer: NonNull<u8>, uses: &[Use]) -> Freed {
        let DriverPool { device, stream, .. } = &*self.pool;
        let mut is_ordered = false;
        let enqueued = enqueue(stream, std::iter::empty(), || {
            for used in uses {
                used.order(stream.inner())?;
            }
            is_ordered = true;
            // SAFETY: the caller's promise; the stream is live, and behind all uses.
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
            // The whole handle: its field alone may not change threads.
            let handle = raw;
            // SAFETY: no handle and no buffer is left.
            unsafe { api.mem_pool_destroy(ordinal, handle.0) }
        };
        // CUDA documents that it keeps what streams have not freed yet. With driver 580 on an H200, a pool that was destroyed before its
        // last frees had run made a later allocation from another pool crash inside the driver; so they are waited for.
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
