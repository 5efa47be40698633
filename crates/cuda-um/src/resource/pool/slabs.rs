//! A pool of slabs as its handles and its buffers hold it.

use crate::context::device::Device;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::Upstream;
use crate::resource::pool::block::{BlockOwner, FreeBlock, PoolBlock};
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

impl BlockOwner for Home {
    fn device(&self) -> &Device {
        self.pool.device()
    }

    fn kind(&self) -> MemoryKind {
        self.pool.kind()
    }

    fn take_back(&self, block: FreeBlock, class: Option<u16>, bytes: usize) {
        self.pool.give(shard::own(), block, class, bytes);
    }

    fn note_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        self.pool.advised.note(range, advice, location);
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
    pub(super) fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let shard = shard::own();
        let home = &self.homes[shard];
        let taken = home.pool.take(shard, bytes)?;
        let address = taken.block.address;
        let block = PoolBlock {
            owner: Arc::clone(home) as Arc<dyn BlockOwner>,
            class: taken.class,
            bytes: taken.bytes,
            slab: address.slab,
        };
        let pointers = (address.host, address.device);
        let in_flight = taken.block.left();
        Ok(RawBuffer::pooled(block, pointers, bytes, in_flight))
    }

    pub(super) fn trim(&self) -> usize {
        self.pool().trim()
    }

    pub(super) fn stats(&self) -> PoolStats {
        self.pool().stats()
    }
}
