//! A pool of slabs as its handles and its buffers hold it.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::context::tracker::InFlight;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::Upstream;
use crate::resource::owner::{Held, Owner, Released};
use crate::resource::pool::free_block::FreeBlock;
use crate::resource::pool::shard;
use crate::resource::pool::shard::SHARDS;
use crate::resource::pool::shared::Shared;
use crate::resource::pool::{PoolOptions, PoolStats};
use cuda_um_sys::cudaMemoryAdvise;
use std::ops::Range;
use std::sync::Arc;

/// A pool of slabs. A clone is the same pool.
#[derive(Clone)]
pub(super) struct Slabs {
    /// One home for each shard, which its buffers hold: threads of different shards write no common reference count.
    homes: Arc<[Arc<Home>; SHARDS]>,
}

/// The reference from the buffers of a shard to the pool. The pool is live as long as one of its homes.
#[repr(align(128))]
pub(super) struct Home {
    pub(super) pool: Arc<Shared>,
}

impl Owner for Home {
    fn device(&self) -> &Device {
        self.pool.device()
    }

    fn kind(&self) -> MemoryKind {
        self.pool.kind()
    }

    fn name(&self) -> &'static str {
        match self.kind() {
            MemoryKind::Managed => "pooled managed",
            MemoryKind::Pinned => "pooled pinned",
            MemoryKind::Device => "pooled device",
        }
    }

    fn track_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        self.pool.advised.note(range, advice, location);
    }

    fn left_device(&self, block: &Block) {
        self.pool.left_device(block.reserved_bytes);
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        self.take_back(block, None);
        Ok(None)
    }

    /// The next owner's work is ordered after the uses.
    unsafe fn release(&self, mut released: Released<'_>) {
        self.take_back(&released.block, released.in_flight.take());
        let (buffer, bytes) = (released.buffer, released.block.bytes);
        crate::telemetry::debug!(buffer, bytes, "back to the pool");
    }
}

impl Home {
    fn take_back(&self, block: &Block, in_flight: Option<Box<InFlight>>) {
        let free = FreeBlock {
            address: block.address,
            in_flight,
            is_away: block.is_away,
            departures: self.pool.departures(),
        };
        self.pool
            .give(shard::own(), free, block.class, block.reserved_bytes);
    }
}

impl Slabs {
    pub(super) fn new(upstream: Box<dyn Upstream>, options: PoolOptions) -> Result<Self> {
        options.check()?;
        let pool = Arc::new(Shared::new(upstream, options));
        let home = |_| {
            Arc::new(Home {
                pool: Arc::clone(&pool),
            })
        };
        Ok(Self {
            homes: Arc::new(std::array::from_fn(home)),
        })
    }

    fn pool(&self) -> &Arc<Shared> {
        &self.homes[0].pool
    }

    pub(super) fn device(&self) -> &Device {
        self.pool().device()
    }

    pub(super) fn options(&self) -> &PoolOptions {
        self.pool().options()
    }

    /// The name of the pool's slabs.
    pub(super) fn name(&self) -> &'static str {
        self.pool().kind().name()
    }

    /// Allocates a buffer of `bytes`, which is not 0, with the uses of its memory's former owners.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let shard = shard::own();
        let home = &self.homes[shard];
        let taken = home.pool.take(shard, bytes)?;
        let block = Block {
            address: taken.block.address,
            bytes,
            reserved_bytes: taken.bytes,
            class: taken.class,
            is_away: taken.block.is_away,
        };
        let owner = Arc::clone(home) as Arc<dyn Owner>;
        let in_flight = taken.block.left();
        Ok(Allocation::of_block(owner, block, in_flight))
    }

    pub(super) fn trim(&self) -> usize {
        self.pool().trim()
    }

    pub(super) fn stats(&self) -> PoolStats {
        self.pool().stats()
    }
}
