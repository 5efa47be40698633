//! A memory resource with a limit and statistics, over another one.
#![allow(unsafe_code, reason = "passes memory back to its owner")]

use crate::context::device::Device;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::owner::{Held, Owner, Released};
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A memory resource that counts the buffers of another resource, and refuses those beyond a limit. A clone is the same resource.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{ErrorKind, LimitedMemory, PoolOptions, UnifiedBuffer, UnifiedPool};
///
/// let pool = UnifiedPool::new(&device, PoolOptions::default())?;
/// let cache = LimitedMemory::new(pool.clone(), 1 << 20); // a part of the program that may use 1 MiB of the pool
/// let entry = UnifiedBuffer::<u8>::zeroed_in(&cache, 700_000)?;
/// let refused = UnifiedBuffer::<u8>::zeroed_in(&cache, 700_000).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
/// drop(entry);
/// assert_eq!((cache.stats().live_bytes, cache.stats().peak_bytes), (0, 700_000));
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// The resource counts the bytes of live buffers, without the rounding of a pool. A buffer that is dropped while the device uses it
/// counts no more, although its memory is freed later. Each allocation costs one small allocation on the host.
#[derive(Clone)]
#[doc(alias = "limiting_resource_adaptor")]
#[doc(alias = "statistics_resource_adaptor")]
pub struct LimitedMemory {
    inner: Arc<Inner>,
}

/// Statistics of a [`LimitedMemory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes of the live buffers.
    pub live_bytes: usize,
    /// The maximum of `live_bytes` so far.
    pub peak_bytes: usize,
    /// The number of live buffers.
    pub live_buffers: usize,
    /// The number of allocations so far.
    pub allocations: u64,
}

struct Inner {
    upstream: Box<dyn MemoryResource>,
    limit_bytes: Option<usize>,
    stats: Mutex<MemoryStats>,
}

/// The owner of one allocation: counts its release, and passes it to the owner below.
struct Counted {
    inner: Arc<Inner>,
    owner: Arc<dyn Owner>,
}

impl LimitedMemory {
    /// Makes the resource over another one. The limit is in bytes; without one (`None`) the resource only counts.
    pub fn new(
        upstream: impl MemoryResource + 'static,
        limit_bytes: impl Into<Option<usize>>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                upstream: Box::new(upstream),
                limit_bytes: limit_bytes.into(),
                stats: Mutex::default(),
            }),
        }
    }

    /// The current statistics. In a child made by `fork`, all zeros.
    pub fn stats(&self) -> MemoryStats {
        match self.device().api().origin.is_inherited() {
            true => MemoryStats::default(),
            false => *self.inner.stats.lock(),
        }
    }
}

impl MemoryResource for LimitedMemory {}

impl Allocate for LimitedMemory {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let inner = &self.inner;
        inner.charge(bytes)?;
        let allocated = inner.upstream.allocate(bytes);
        let allocation = allocated.inspect_err(|_| inner.discharge(bytes))?;
        {
            // Counted after the allocation: a refused one was never live.
            let mut stats = inner.stats.lock();
            stats.peak_bytes = stats.peak_bytes.max(stats.live_bytes);
            stats.allocations += 1;
        }
        Ok(allocation.wrapped(|owner| {
            let inner = Arc::clone(inner);
            Arc::new(Counted { inner, owner })
        }))
    }

    fn owner(&self) -> &dyn Owner {
        self.inner.upstream.owner()
    }
}

impl Inner {
    fn charge(&self, bytes: usize) -> Result<()> {
        let mut stats = self.stats.lock();
        let limit = self.limit_bytes.unwrap_or(usize::MAX);
        let room = limit.saturating_sub(stats.live_bytes);
        if bytes > room {
            drop(stats);
            let (kind, device) = (self.upstream.kind(), self.upstream.device().ordinal());
            return Err(Error::OutOfMemory {
                call: kind.call(),
                subject: format!(
                    "{} on device {device}, not allocated: the limit of {limit} bytes (LimitedMemory) leaves {room} beside the live buffers",
                    kind.name()
                ),
                requested_bytes: bytes,
                free_bytes: room,
                total_bytes: limit,
            });
        }
        stats.live_bytes += bytes;
        stats.live_buffers += 1;
        Ok(())
    }

    fn discharge(&self, bytes: usize) {
        let mut stats = self.stats.lock();
        stats.live_bytes -= bytes;
        stats.live_buffers -= 1;
    }
}

impl Owner for Counted {
    fn device(&self) -> &Device {
        self.owner.device()
    }

    fn kind(&self) -> MemoryKind {
        self.owner.kind()
    }

    fn name(&self) -> &'static str {
        self.owner.name()
    }

    fn is_open_to_peers(&self) -> bool {
        self.owner.is_open_to_peers()
    }

    fn track_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        self.owner.track_advice(range, advice, location);
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        // SAFETY: guaranteed by the caller.
        let held = unsafe { self.owner.free(block) }?;
        self.inner.discharge(block.bytes);
        Ok(held)
    }

    unsafe fn release(&self, released: Released<'_>) {
        self.inner.discharge(released.block.bytes);
        let owner = &self.owner;
        // SAFETY: guaranteed by the caller. The owner below frees the memory, also if it does so later.
        unsafe { owner.release(Released { owner, ..released }) };
    }
}

impl fmt::Debug for LimitedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedMemory")
            .field("device", &self.device().ordinal())
            .field("memory", &self.kind().name())
            .field("limit_bytes", &self.inner.limit_bytes)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
