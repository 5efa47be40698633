//! The pool as its buffers use it: a block has one owner, no thread is refused while there is memory, and a trim frees only unused memory.

use crate::context::device::Device;
use crate::models::checker::{model, preempted};
use crate::models::engine::{Engine, engine};
use crate::models::machine::device_of;
use crate::resource::block::Block;
use crate::resource::kind::{MemoryKind, Oversubscription};
use crate::resource::pool::PoolOptions;
use crate::resource::pool::class::CHUNK;
use crate::resource::pool::shared::Shared;
use crate::resource::separate::Cuda;
use crate::sync::thread;
use std::sync::Arc;

/// The two sizes of blocks: two small ones are split at once, and both are as large as a large one.
const LARGE: usize = CHUNK / 2;
const SMALL: usize = LARGE / 2;

/// A pool of device memory, on a device that has nothing besides.
struct Pool(Device, Shared);

impl Pool {
    fn of(slabs: usize) -> Arc<Self> {
        let device = device_of(slabs * CHUNK);
        let options = PoolOptions::default().slab_bytes(CHUNK);
        let memory = Cuda::new(
            device.state(),
            MemoryKind::Device,
            Oversubscription::default(),
        );
        Arc::new(Self(device, Shared::new(Arc::new(memory), options)))
    }

    /// What a slab gives as small blocks, all of them free.
    fn with_small_blocks(slabs: usize) -> Arc<Self> {
        let pool = Self::of(slabs);
        let blocks: Vec<Box<Block>> = (0..CHUNK / SMALL).map(|_| pool.take(0, SMALL)).collect();
        blocks.into_iter().for_each(|block| pool.give(0, block));
        pool
    }

    /// As a thread of that shard.
    fn take(&self, shard: usize, bytes: usize) -> Box<Block> {
        let taken = self.1.take(&self.0, shard, bytes);
        let taken = taken.expect("there is memory");
        let start = taken.at();
        engine(|cuda| cuda.take(start..start + taken.reserved_bytes));
        taken
    }

    fn give(&self, shard: usize, taken: Box<Block>) {
        let start = taken.at();
        engine(|cuda| cuda.give(start..start + taken.reserved_bytes));
        self.1.give(shard, taken);
    }

    /// Everything is given back: it is all there, and can be freed.
    fn ends(&self) {
        let stats = self.1.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0), "{stats:?}");
        assert_eq!(self.1.trim(), stats.reserved_bytes, "{stats:?}");
        assert_eq!(engine(Engine::slabs), 0);
    }
}

#[test]
fn threads_that_find_nothing_share_a_slab() {
    preempted(3, || {
        let pool = Pool::of(1);
        let its = Arc::clone(&pool);
        let other = thread::spawn(move || [its.take(1, LARGE), its.take(1, SMALL)]);
        let here = pool.take(0, SMALL);
        let there = other.join().unwrap();
        pool.give(0, here);
        there.into_iter().for_each(|block| pool.give(1, block));
        pool.ends();
    });
}

#[test]
fn small_blocks_are_joined_beside_one_that_takes_them() {
    model(|| {
        let pool = Pool::with_small_blocks(1);
        let its = Arc::clone(&pool);
        let other = thread::spawn(move || its.take(1, SMALL));
        let here = pool.take(2, LARGE);
        let there = other.join().unwrap();
        pool.give(2, here);
        pool.give(1, there);
        pool.ends();
    });
}

/// claim 3
#[test]
fn a_trim_frees_no_slab_in_use_and_nobody_fails_beside_it() {
    model(|| {
        let pool = Pool::with_small_blocks(1);
        let its = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let block = its.take(0, SMALL);
            its.give(1, block);
        });
        pool.0.trim();
        other.join().unwrap();
        pool.ends();
    });
}

#[test]
fn whole_slabs_that_are_free_make_room_for_others() {
    model(|| {
        let pool = Pool::of(2);
        let both = [pool.take(0, CHUNK), pool.take(0, CHUNK)];
        both.into_iter().for_each(|slab| pool.give(0, slab));
        let its = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let slab = its.take(1, CHUNK);
            its.give(1, slab);
        });
        let here = pool.take(0, SMALL);
        other.join().unwrap();
        pool.give(0, here);
        pool.ends();
    });
}
