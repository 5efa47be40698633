//! A memory resource with a limit and statistics, over another one.
#![allow(unsafe_code, reason = "passes memory back to its owner")]

use crate::context::device::Device;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
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
/// use cuda_um::{ErrorKind, MemoryKind, Pool, PoolOptions, UnifiedBuffer, resource::LimitedMemory};
///
/// let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default())?;
/// let cache = LimitedMemory::new(pool.clone(), 1 << 20); // a part of the program that may use 1 MiB of the pool
/// let entry = UnifiedBuffer::<u8>::zeroed_in(&cache, 700_000)?;
/// let refused = UnifiedBuffer::<u8>::zeroed_in(&cache, 700_000).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
/// drop(entry);
/// assert_eq!((cache.stats().live_bytes, cache.stats().peak_bytes), (0, 700_000));
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// The resource counts the bytes of live buffers, without the rounding of a pool. A buffer counts until it is dropped or closed, although
/// its memory may be freed later. Beyond the limit, the constructors of buffers return [`Error::OutOfMemory`], without a wait for
/// memory that is freed later. Each allocation costs one small allocation on the host.
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stats: MemoryStats,
    /// Bytes of the live buffers and of allocations that are under way.
    charged_bytes: usize,
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
                state: Mutex::default(),
            }),
        }
    }

    /// The current statistics. In a child made by `fork`, all zeros.
    pub fn stats(&self) -> MemoryStats {
        match fork::is_inherited() {
            true => MemoryStats::default(),
            false => self.inner.state.lock().stats,
        }
    }
}

impl MemoryResource for LimitedMemory {
    fn device(&self) -> &Device {
        self.inner.upstream.device()
    }

    fn kind(&self) -> MemoryKind {
        self.inner.upstream.kind()
    }
}

impl Allocate for LimitedMemory {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let inner = &self.inner;
        inner.charge(bytes)?;
        let allocated = inner.upstream.allocate(bytes);
        let allocation = allocated.inspect_err(|_| inner.state.lock().charged_bytes -= bytes)?;
        inner.count(bytes);
        Ok(allocation.wrapped(|owner| {
            let inner = Arc::clone(inner);
            Arc::new(Counted { inner, owner })
        }))
    }
}

impl Inner {
    fn charge(&self, bytes: usize) -> Result<()> {
        let limit = self.limit_bytes.unwrap_or(usize::MAX);
        let room = {
            let mut state = self.state.lock();
            let room = limit.saturating_sub(state.charged_bytes);
            if bytes <= room {
                state.charged_bytes += bytes;
                return Ok(());
            }
            room
        };
        let (kind, device) = (self.upstream.kind(), self.upstream.device().ordinal());
        Err(Error::OutOfMemory {
            call: kind.call(),
            subject: format!(
                "{} on device {device}, not allocated: the limit of {limit} bytes (LimitedMemory) leaves {room}",
                kind.name()
            ),
            requested_bytes: bytes,
            free_bytes: room,
            total_bytes: limit,
        })
    }

    /// Counts a new buffer, which is charged.
    fn count(&self, bytes: usize) {
        let stats = &mut self.state.lock().stats;
        stats.allocations += 1;
        stats.live_buffers += 1;
        stats.live_bytes += bytes;
        stats.peak_bytes = stats.peak_bytes.max(stats.live_bytes);
    }

    /// Counts a buffer that is closed or dropped.
    fn discharge(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.charged_bytes -= bytes;
        state.stats.live_buffers -= 1;
        state.stats.live_bytes -= bytes;
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

    fn allocate_again(self: Arc<Self>, bytes: usize) -> Option<Result<Allocation>> {
        let inner = Arc::clone(&self.inner);
        Some(LimitedMemory { inner }.allocate(bytes))
    }

    fn is_borrowed(&self) -> bool {
        self.owner.is_borrowed()
    }

    fn is_imported(&self) -> bool {
        self.owner.is_imported()
    }

    fn free_waits(&self) -> bool {
        self.owner.free_waits()
    }

    fn can_give(&self) -> bool {
        self.owner.can_give()
    }

    fn give(&self, block: &Block) {
        self.inner.discharge(block.bytes);
        self.owner.give(block);
    }

    fn is_open_to_peers(&self) -> bool {
        self.owner.is_open_to_peers()
    }

    fn track_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        self.owner.track_advice(range, advice, location);
    }

    fn left_device(&self, block: &Block) {
        self.owner.left_device(block);
    }

    fn departures(&self, block: &Block) -> u64 {
        self.owner.departures(block)
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        self.inner.discharge(block.bytes);
        // SAFETY: guaranteed by the caller.
        unsafe { self.owner.free(block) }
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

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;
    use crate::context::runtime::Runtime;
    use crate::resource::managed::ManagedMemory;
    use cuda_um_sim::Sim;

    /// An owner that answers each question with `says`.
    struct Answers {
        device: Device,
        says: bool,
    }

    impl Owner for Answers {
        fn device(&self) -> &Device {
            &self.device
        }

        fn kind(&self) -> MemoryKind {
            MemoryKind::Pinned
        }

        fn name(&self) -> &'static str {
            "memory of the test"
        }

        fn is_borrowed(&self) -> bool {
            self.says
        }

        fn is_imported(&self) -> bool {
            self.says
        }

        fn free_waits(&self) -> bool {
            self.says
        }

        fn can_give(&self) -> bool {
            self.says
        }

        fn is_open_to_peers(&self) -> bool {
            self.says
        }

        unsafe fn free(&self, _: &Block) -> Result<Held> {
            Ok(None)
        }
    }

    #[test]
    fn a_counted_allocation_has_the_properties_of_its_owner() {
        let sim = Sim::builder().build().unwrap();
        let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
        for says in [false, true] {
            let device = device.clone();
            let limited = LimitedMemory::new(ManagedMemory::new(&device), None);
            let counted = Counted {
                inner: limited.inner,
                owner: Arc::new(Answers { device, says }),
            };
            let answers = [
                counted.is_borrowed(),
                counted.is_imported(),
                counted.free_waits(),
                counted.can_give(),
                counted.is_open_to_peers(),
            ];
            assert_eq!(answers, [says; 5]);
            assert_eq!(
                (counted.kind(), counted.name()),
                (MemoryKind::Pinned, "memory of the test")
            );
        }
    }
}
