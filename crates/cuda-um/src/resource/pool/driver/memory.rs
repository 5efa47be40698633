//! The memory of a driver's pool: allocations and frees in stream order.
#![allow(unsafe_code, reason = "owns the driver's pool by its handle")]

use crate::context::device::Device;
use crate::context::op::{InCapture, Op, What};
use crate::context::reclaim::Which;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::{Access, Finished, Use};
use crate::driver::Api;
use crate::driver::mempool::MemPool;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::{MemoryKind, Oversubscription, check_room, counted};
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::resource::pool::{PoolOptions, PoolStats, beyond_limit};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cuda_um_sys::{cudaMemAllocationType, cudaMemPool_t, cudaMemPoolAttr};
use std::ptr::NonNull;
use std::sync::Arc;

const USED: cudaMemPoolAttr = cudaMemPoolAttr::cudaMemPoolAttrUsedMemCurrent;
const PEAK: cudaMemPoolAttr = cudaMemPoolAttr::cudaMemPoolAttrUsedMemHigh;
const RESERVED: cudaMemPoolAttr = cudaMemPoolAttr::cudaMemPoolAttrReservedMemCurrent;
const THRESHOLD: cudaMemPoolAttr = cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;

/// The memory of a driver's pool, whose bytes the driver counts. All its allocations and frees are enqueued on one stream.
pub(super) struct Driver {
    pub(super) device: Device,
    pub(super) traits: Traits,
    stream: Stream,
    pub(super) options: PoolOptions,
    raw: Owned<MemPool>,
    /// The most managed bytes of the device; `None` for device memory, and if managed memory may exceed the device.
    managed_limit: Option<usize>,
    // Relaxed: it says nothing of other memory.
    buffers: AtomicUsize,
    /// True if a buffer's memory was given to another owner, which frees it.
    has_given: AtomicBool,
}

impl Driver {
    /// Makes a pool of device memory or managed memory.
    pub(super) fn new(device: &Device, kind: MemoryKind, options: PoolOptions) -> Result<Self> {
        let (api, ordinal) = (device.api(), device.ordinal());
        let stream = device.for_buffer().default_stream()?;
        let is_managed = kind == MemoryKind::Managed;
        let is_refused = options.oversubscription == Oversubscription::Refused;
        let managed_limit = match is_managed && is_refused {
            true => Some(device.memory_info()?.total_bytes),
            false => None,
        };
        let (memory, name) = match is_managed {
            true => (
                cudaMemAllocationType::cudaMemAllocationTypeManaged,
                "driver-pooled managed",
            ),
            false => (
                cudaMemAllocationType::cudaMemAllocationTypePinned,
                "pooled device",
            ),
        };
        let raw = api.mem_pool(ordinal, memory, options.limit_bytes.unwrap_or(0))?;
        // SAFETY: the pool has no other owner. It is dropped after all its buffers, and waits for their frees.
        let raw = unsafe { Owned::new(api, ordinal, raw) };
        // Owns the handle from here on, also if the next call fails.
        let pool = Self {
            device: device.for_buffer(),
            traits: Traits {
                is_open_to_peers: is_managed,
                can_give: true,
                ..Traits::of(device.state(), kind, name)
            },
            stream,
            options,
            raw,
            managed_limit,
            buffers: AtomicUsize::new(0),
            has_given: AtomicBool::new(false),
        };
        // By default the driver releases all free memory at each synchronization of a stream. A former owner may have left a peak.
        for (attribute, value) in [(THRESHOLD, u64::MAX), (PEAK, 0)] {
            // SAFETY: the pool is live; the attribute has 64 bits.
            unsafe { api.mem_pool_set(ordinal, pool.raw.raw().raw, attribute, value) }?;
        }
        if is_managed && !is_refused {
            device.state().driver.may_evict(ordinal);
        }
        Ok(pool)
    }

    fn call(&self) -> (&Api, u32, cudaMemPool_t) {
        let device = &self.traits.device;
        (&device.api, device.ordinal, self.raw.raw().raw)
    }

    /// Allocates `bytes`, which is not 0. The allocation is work on the pool's stream, which the first use is ordered after.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        let pointer = match self.malloc(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                self.make_room();
                let again = self.malloc(bytes);
                again.map_err(|error| self.beyond_limit(bytes).unwrap_or(error))?
            }
            result => result?,
        };
        self.buffers.fetch_add(1, Ordering::Relaxed);
        // The driver does not tell where the pages of a former owner are.
        let block = Block::new(Address::shared(pointer), bytes);
        let stream = self.stream.inner();
        // Numbered after it was enqueued, so this covers the allocation.
        let seq = stream.submitted();
        let mut finished = Finished::new();
        block
            .in_flight
            .record(stream, seq, Access::Write, &mut finished);
        let owner = Arc::clone(self) as Arc<dyn Owner>;
        let device = Some(self.device.clone());
        Ok(Allocation::of_block(owner, device, block))
    }

    /// Work on the pool's own stream. It is not captured: the memory has an address outside of the graph.
    fn op(&self) -> Op<'_> {
        let op = Op::new(What::Allocate, &self.device, &[]);
        Op {
            is_told: false,
            ..op.in_capture(InCapture::Ignores)
        }
    }

    fn malloc(&self, bytes: usize) -> Result<NonNull<u8>> {
        let (device, kind) = (&self.traits.device, self.traits.kind);
        counted(kind, device, (bytes, self.managed_limit), || {
            self.check(bytes)?;
            device.reclaim.keep_budget();
            let (api, ordinal, pool) = self.call();
            self.stream.submit(&self.op(), |on| {
                // SAFETY: the pool and the stream are live.
                unsafe { api.malloc_from_pool(ordinal, pool, bytes, on.raw) }
            })
        })
    }

    /// Unless [`Oversubscription::Allowed`], refuses that a pool of managed memory, or of an integrated device, grows by more than the free memory.
    fn check(&self, bytes: usize) -> Result<()> {
        let (device, kind) = (&self.traits.device, self.traits.kind);
        let is_managed = kind == MemoryKind::Managed;
        let is_refused = self.options.oversubscription == Oversubscription::Refused;
        if is_refused && (is_managed || device.capabilities.integrated) {
            let [used, reserved] = self.bytes([USED, RESERVED]);
            let grows_by = used.saturating_add(bytes).saturating_sub(reserved);
            if grows_by > 0 {
                let memory = (kind, device.ordinal);
                check_room(memory, grows_by.min(bytes), device.memory_info()?)?;
            }
        }
        Ok(())
    }

    /// The error for `bytes` that the pool's limit does not leave, which the driver does not name.
    fn beyond_limit(&self, bytes: usize) -> Option<Error> {
        let [used] = self.bytes([USED]);
        let room = self.options.limit_bytes?.saturating_sub(used);
        let call = "cudaMallocFromPoolAsync";
        (bytes > room).then(|| beyond_limit(call, &self.traits, &self.options, (bytes, room)))
    }

    /// A buffer no longer owns its block.
    fn discharge(&self, block: &Block) {
        self.buffers.fetch_sub(1, Ordering::Relaxed);
        if self.traits.kind == MemoryKind::Managed {
            let device = &self.traits.device;
            device.driver.discharge(device.ordinal, block.bytes);
        }
    }

    /// Releases memory that no buffer uses, after waiting for its frees.
    fn make_room(&self) {
        self.device.trim_pools();
        let _ = self.traits.device.reclaim.flush(Which::Own);
        // If this fails, memory whose free is pending is not released.
        if let Err(error) = self.stream.synchronize() {
            crate::telemetry::warn!(%error, "the frees of a pool could not be waited for");
        }
        self.trim();
    }

    /// Releases the memory that is free now. Returns the released bytes.
    pub(super) fn trim(&self) -> usize {
        let [before] = self.bytes([RESERVED]);
        let (api, device, pool) = self.call();
        // SAFETY: the pool is live.
        if let Err(error) = unsafe { api.mem_pool_trim(device, pool, 0) } {
            crate::telemetry::warn!(device, %error, "a pool could not be trimmed");
            return 0;
        }
        let [after] = self.bytes([RESERVED]);
        before.saturating_sub(after)
    }

    /// The bytes that the driver counts; 0 if it does not report them.
    fn bytes<const N: usize>(&self, attributes: [cudaMemPoolAttr; N]) -> [usize; N] {
        let (api, device, pool) = self.call();
        attributes.map(|attribute| {
            // SAFETY: the pool is live; the attribute has 64 bits.
            let bytes = unsafe { api.mem_pool_get(device, pool, attribute) };
            bytes.map_or_else(
                |error| {
                    crate::telemetry::warn!(device, %error, "the bytes of a pool could not be read");
                    0
                },
                |bytes| bytes as usize,
            )
        })
    }

    pub(super) fn stats(&self) -> PoolStats {
        let [live_bytes, peak_bytes, reserved_bytes] = self.bytes([USED, PEAK, RESERVED]);
        let free_bytes = reserved_bytes.saturating_sub(live_bytes);
        PoolStats {
            live_bytes,
            peak_bytes,
            reserved_bytes,
            free_bytes,
            live_buffers: self.buffers.load(Ordering::Relaxed),
            slabs: 0,
        }
    }
}

impl Owner for Driver {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(self: Arc<Self>, _: &Device, bytes: usize) -> Option<Result<Allocation>> {
        Some(self.allocate(bytes))
    }

    fn give(&self, block: &Block) {
        self.has_given.store(true, Ordering::Release);
        self.discharge(block);
    }

    unsafe fn free(&self, block: Box<Block>) -> Result<Held> {
        let (api, ordinal, _) = self.call();
        // SAFETY: guaranteed by the caller.
        unsafe { api.free(ordinal, block.address.host) }?;
        self.discharge(&block);
        Ok(None)
    }

    /// Enqueues the free after the uses.
    unsafe fn release(&self, released: Released<'_>) {
        let buffer = released.buffer;
        let mut is_ordered = false;
        let enqueued = self.stream.submit(&self.op(), |on| {
            for used in &released.block.in_flight.before(Access::Write) {
                used.order(self.stream.inner())?;
            }
            is_ordered = true;
            let (api, ordinal, _) = self.call();
            // SAFETY: guaranteed by the caller; the stream is live, and ordered after all uses.
            unsafe { api.free_async(ordinal, released.block.address.host, on.raw) }
        });
        match enqueued {
            Ok(()) => self.discharge(&released.block),
            // CUDA refused the free. The memory may or may not be freed, so it stays counted.
            Err(error) if is_ordered => {
                crate::telemetry::warn!(buffer, %error, "a buffer could not be freed");
            }
            Err(_) => {
                // SAFETY: guaranteed by the caller; nothing was freed.
                unsafe { released.free_when_idle() };
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        fork::released(|| {
            let has_given = self.has_given.load(Ordering::Acquire);
            let is_theirs = has_given && {
                let (api, ordinal, pool) = self.call();
                // SAFETY: the pool is live; the attribute has 64 bits.
                !matches!(unsafe { api.mem_pool_get(ordinal, pool, USED) }, Ok(0))
            };
            let raw = self.raw.take();
            if is_theirs {
                // The other owners free memory of this pool later, so it stays.
                drop(raw.kept());
                return;
            }
            self.device.destroy_after(raw, || {
                // Memory whose frees are pending could not be released, so the frees are waited for.
                let stream = self.stream.inner();
                let mut frees = smallvec::smallvec![Use::of(stream, stream.submitted())];
                if has_given {
                    // The other owners' frees may be enqueued on any stream.
                    let stream = StreamInner::unknown(&self.traits.device);
                    frees.push(Use::of(&stream, stream.number()));
                }
                frees
            });
        });
    }
}
