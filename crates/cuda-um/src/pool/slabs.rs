//! A pool of slabs as its handles and its buffers hold it.

use super::block::PoolBlock;
use super::kind::Kind;
use super::shard::{self, SHARDS};
use super::shared::Shared;
use super::{PoolOptions, PoolStats};
use crate::device::Device;
use crate::error::Result;
use crate::memory::raw::RawBuffer;
use std::sync::Arc;

/// A pool of slabs. A clone is the same pool.
#[derive(Clone)]
pub(super) struct Slabs {
    /// For each shard one, which its buffers hold: threads of different shards write no common count.
    homes: Arc<[Arc<Home>; SHARDS]>,
}

/// What the buffers of a shard hold of the pool. The pool lives as long as one of its homes.
#[repr(align(128))]
pub(super) struct Home {
    pub(super) pool: Arc<Shared>,
}

impl Slabs {
    pub(super) fn new(device: &Device, kind: Kind, options: PoolOptions) -> Result<Self> {
        options.check()?;
        let pool = Arc::new(Shared::new(device, kind, options));
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

    /// What it is made of.
    pub(super) fn name(&self) -> &'static str {
        self.pool().kind().name()
    }

    /// A buffer of so many bytes, not 0, with the work that its memory's former owners left.
    pub(super) fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let shard = shard::own();
        let home = &self.homes[shard];
        let taken = home.pool.take(shard, bytes)?;
        let address = taken.block.address;
        let block = PoolBlock {
            home: Arc::clone(home),
            class: taken.class,
            bytes: taken.bytes,
            kind: home.pool.kind(),
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
