//! The memory of a driver's pool: device memory, or managed memory, that is allocated and freed in stream order.
#![allow(unsafe_code, reason = "owns the driver's pool by its handle")]

use crate::context::device::Device;
use crate::context::observer::{InCapture, Op, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::{Access, Finished, InFlight, Use};
use crate::driver::mempool::MemPool;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::{MemoryKind, Oversubscription, Used, check_room, would_oversubscribe};
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::resource::pool::{PoolOptions, PoolStats, beyond_limit};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use cuda_um_sys::{cudaMemAllocationType, cudaMemPoolAttr};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// The memory of a driver's pool. All its allocations and frees are enqueued on one stream.
pub(crate) struct Driver {
    pub(super) traits: Traits,
    /// The device's default stream.
    stream: Stream,
    options: PoolOptions,
    raw: ManuallyDrop<Owned<MemPool>>,
    /// The most managed bytes of the device; `None` for device memory, and if managed memory may exceed the device.
    managed_limit: Option<usize>,
    live: Mutex<Live>,
    /// True if a buffer's memory was given to another owner, which frees it.
    has_given: AtomicBool,
}

/// The memory that buffers own.
#[derive(Default)]
struct Live {
    buffers: usize,
    bytes: usize,
    peak_bytes: usize,
}

/// The unit in which blocks are counted, in bytes; CUDA aligns blocks at least to it.
const GRAIN: usize = 256;

impl Driver {
    /// Makes a pool of device memory or managed memory.
    pub(super) fn new(device: &Device, kind: MemoryKind, options: PoolOptions) -> Result<Self> {
        let stream = device.default_stream()?;
        let is_bounded =
            kind == MemoryKind::Managed && options.oversubscription == Oversubscription::Refused;
        let managed_limit = match is_bounded {
            true => Some(device.memory_info()?.total_bytes),
            false => None,
        };
        let (memory, name) = match kind {
            MemoryKind::Managed => (
                cudaMemAllocationType::cudaMemAllocationTypeManaged,
                "driver-pooled managed",
            ),
            _ => (
                cudaMemAllocationType::cudaMemAllocationTypePinned,
                "pooled device",
            ),
        };
        let raw = device.api().mem_pool(device.ordinal(), memory)?;
        // SAFETY: the pool has no other owner. It is dropped after all its buffers, and waits for their frees.
        let raw = unsafe { Owned::new(device.api(), device.ordinal(), raw) };
        // Owns the handle from here on, also if the next call fails.
        let pool = Self {
            traits: Traits {
                is_open_to_peers: kind == MemoryKind::Managed,
                can_give: true,
                ..Traits::of(device, kind, name)
            },
            stream,
            options,
            raw: ManuallyDrop::new(raw),
            managed_limit,
            live: Mutex::default(),
            has_given: AtomicBool::new(false),
        };
        // By default the driver releases all free memory at each synchronization of a stream.
        let keep = options.limit_bytes.map_or(u64::MAX, |limit| limit as u64);
        let threshold = cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
        // SAFETY: the pool is live; the attribute has 64 bits.
        unsafe {
            let api = device.api();
            api.mem_pool_set(device.ordinal(), pool.raw.raw().raw, threshold, keep)?;
        }
        Ok(pool)
    }

    pub(super) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Allocates `bytes`, which is not 0. The allocation is work on the pool's stream, which the first use is ordered after.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation> {
        let charged = bytes.next_multiple_of(GRAIN);
        let allocate = || {
            self.charge(charged)?;
            self.device().reclaim().give_way();
            self.malloc(bytes).inspect_err(|_| self.discharge(charged))
        };
        let pointer = match allocate() {
            Err(Error::OutOfMemory { .. }) => {
                self.make_room();
                allocate()?
            }
            result => result?,
        };
        {
            // Count after the allocation: a refused one was never live.
            let mut live = self.live.lock();
            live.peak_bytes = live.peak_bytes.max(live.bytes);
        }
        let block = Block {
            address: Address::shared(pointer),
            bytes,
            reserved_bytes: charged,
            class: None,
            // The driver does not tell where the pages of a former owner are.
            is_away: self.traits.kind == MemoryKind::Managed,
        };
        let in_flight = InFlight::default();
        let stream = self.stream.inner();
        // Numbered after it was enqueued, so this covers the allocation.
        in_flight.record(
            stream,
            stream.submitted(),
            Access::Write,
            &mut Finished::new(),
        );
        let owner = Arc::clone(self) as Arc<dyn Owner>;
        Ok(Allocation::of_block(owner, block, in_flight))
    }

    /// Work on the pool's own stream. It is not captured: the memory has an address outside of the graph.
    fn op(&self) -> Op<'_> {
        let op = Op::new(What::Allocate, self.device(), &[]);
        op.untold().in_capture(InCapture::Ignores)
    }

    fn malloc(&self, bytes: usize) -> Result<NonNull<u8>> {
        let mut pointer = NonNull::dangling();
        self.stream.submit(&self.op(), |stream| {
            let (api, ordinal) = (self.device().api(), self.device().ordinal());
            // SAFETY: the pool and the stream are live.
            pointer = unsafe { api.malloc_from_pool(ordinal, self.raw.raw().raw, bytes, stream) }?;
            Ok(())
        })?;
        Ok(pointer)
    }

    /// Counts a new block.
    fn charge(&self, bytes: usize) -> Result<()> {
        self.charge_pool(bytes)?;
        if let Err(error) = self.check_free(bytes) {
            self.discharge_pool(bytes);
            return Err(error);
        }
        if self.traits.kind != MemoryKind::Managed {
            return Ok(());
        }
        let (driver, ordinal) = (&self.device().state().driver, self.device().ordinal());
        match driver.reserve(ordinal, bytes, self.managed_limit) {
            Ok(reserved) => {
                reserved.keep();
                Ok(())
            }
            Err(live) => {
                self.discharge_pool(bytes);
                let info = self.device().memory_info().unwrap_or_default();
                Err(would_oversubscribe(
                    (self.traits.kind, ordinal),
                    bytes,
                    Used::Managed(live),
                    info,
                ))
            }
        }
    }

    /// Refuses more managed memory than the device has free, and more device memory of an integrated device. `bytes` are counted already.
    fn check_free(&self, bytes: usize) -> Result<()> {
        let is_refused = self.options.oversubscription == Oversubscription::Refused;
        let is_managed = self.traits.kind == MemoryKind::Managed;
        if !is_refused || !(is_managed || self.device().capabilities().integrated) {
            return Ok(());
        }
        let live = self.live.lock().bytes;
        let grows_by = live.saturating_sub(self.reserved_bytes().unwrap_or(0));
        if grows_by == 0 {
            return Ok(());
        }
        let memory = (self.traits.kind, self.device().ordinal());
        check_room(memory, grows_by.min(bytes), self.device().memory_info()?)
    }

    fn charge_pool(&self, bytes: usize) -> Result<()> {
        let mut live = self.live.lock();
        let limit = self.options.limit_bytes.unwrap_or(usize::MAX);
        let room = limit.saturating_sub(live.bytes);
        if bytes > room {
            drop(live);
            let (call, what) = ("cudaMallocFromPoolAsync", self.traits.kind.name());
            let sizes = (bytes, room);
            return Err(beyond_limit(
                call,
                what,
                self.device(),
                &self.options,
                sizes,
            ));
        }
        live.buffers += 1;
        live.bytes += bytes;
        Ok(())
    }

    /// Counts a block that was freed.
    fn discharge(&self, bytes: usize) {
        if self.traits.kind == MemoryKind::Managed {
            let (driver, ordinal) = (&self.device().state().driver, self.device().ordinal());
            driver.discharge(ordinal, bytes);
        }
        self.discharge_pool(bytes);
    }

    fn discharge_pool(&self, bytes: usize) {
        let mut live = self.live.lock();
        live.buffers -= 1;
        live.bytes -= bytes;
    }

    /// Releases memory that no buffer uses, after waiting for its frees.
    fn make_room(&self) {
        self.device().trim_pools();
        self.device().reclaim().flush();
        // If this fails, memory whose free is pending is not released.
        if let Err(error) = self.stream.synchronize() {
            crate::telemetry::warn!(%error, "the frees of a pool could not be waited for");
        }
        self.trim();
    }

    /// Releases the memory that is free now. Returns the released bytes.
    pub(super) fn trim(&self) -> usize {
        let before = self.reserved_bytes().unwrap_or(0);
        let (api, ordinal) = (self.device().api(), self.device().ordinal());
        // SAFETY: the pool is live.
        if let Err(error) = unsafe { api.mem_pool_trim(ordinal, self.raw.raw().raw, 0) } {
            crate::telemetry::warn!(device = ordinal, %error, "a pool could not be trimmed");
        }
        before.saturating_sub(self.reserved_bytes().unwrap_or(before))
    }

    /// The bytes that the driver reserves for the pool; `None` if it does not report them.
    fn reserved_bytes(&self) -> Option<usize> {
        self.bytes_now(cudaMemPoolAttr::cudaMemPoolAttrReservedMemCurrent)
    }

    fn bytes_now(&self, attribute: cudaMemPoolAttr) -> Option<usize> {
        let (api, ordinal) = (self.device().api(), self.device().ordinal());
        // SAFETY: the pool is live; the attribute has 64 bits.
        match unsafe { api.mem_pool_get(ordinal, self.raw.raw().raw, attribute) } {
            Ok(bytes) => usize::try_from(bytes).ok(),
            Err(error) => {
                crate::telemetry::warn!(device = ordinal, %error, "the bytes of a pool could not be read");
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

impl Owner for Driver {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(self: Arc<Self>, bytes: usize) -> Option<Result<Allocation>> {
        Some(self.allocate(bytes))
    }

    fn give(&self, block: &Block) {
        self.has_given.store(true, Ordering::Release);
        self.discharge(block.reserved_bytes);
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        let (api, ordinal) = (self.device().api(), self.device().ordinal());
        // SAFETY: guaranteed by the caller.
        unsafe { api.free(ordinal, block.address.host) }?;
        self.discharge(block.reserved_bytes);
        Ok(None)
    }

    /// Enqueues the free after the uses.
    unsafe fn release(&self, released: Released<'_>) {
        let (buffer, bytes) = (released.buffer, released.block.bytes);
        let mut is_ordered = false;
        let enqueued = self.stream.submit(&self.op(), |stream| {
            for used in &released.in_flight.before(Access::Write) {
                used.order(self.stream.inner())?;
            }
            is_ordered = true;
            let (api, ordinal) = (self.device().api(), self.device().ordinal());
            // SAFETY: guaranteed by the caller; the stream is live, and ordered after all uses.
            unsafe { api.free_async(ordinal, released.block.address.host, stream) }
        });
        match enqueued {
            Ok(()) => {
                self.discharge(released.block.reserved_bytes);
                crate::telemetry::debug!(buffer, bytes, "free in order");
            }
            // CUDA refused the free. The memory may or may not be freed, so it stays counted.
            Err(error) if is_ordered => {
                crate::telemetry::warn!(buffer, %error, "a buffer could not be freed");
            }
            Err(error) => {
                crate::telemetry::debug!(buffer, %error, "not freed in order");
                // SAFETY: guaranteed by the caller; nothing was freed.
                unsafe { released.free_when_idle() };
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: the handle is not used again.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        // Then the drop of the handle does nothing, either.
        if fork::is_over() {
            return;
        }
        let stream = Arc::clone(self.stream.inner());
        let seq = stream.submitted();
        // Memory whose frees are pending could not be released, so the frees are waited for.
        let mut frees = smallvec::smallvec![Use { stream, seq }];
        if self.has_given.load(Ordering::Acquire) {
            let used = cudaMemPoolAttr::cudaMemPoolAttrUsedMemCurrent;
            // SAFETY: the pool is live; the attribute has 64 bits.
            let used = unsafe { raw.api().mem_pool_get(raw.ordinal(), raw.raw().raw, used) };
            if !matches!(used, Ok(0)) {
                // The other owners free memory of this pool later, so it stays.
                drop(raw.kept());
                return;
            }
            // The other owners' frees may be enqueued on any stream.
            let stream = StreamInner::unknown(self.device().state());
            let seq = stream.number();
            frees.push(Use { stream, seq });
        }
        self.device().destroy_after(frees, raw);
    }
}
