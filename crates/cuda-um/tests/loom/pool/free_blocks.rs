//! The free blocks of a pool: what the shards' locks guard, and what the heap's lock is for. Two shards stand for sixteen; nothing is split.

use crate::models::checker::model;
use crate::resource::pool::shard::Shards;
use crate::sync::{Mutex, thread};
use std::sync::Arc;

/// Blocks are numbers, all of one class.
struct Pool {
    shards: Shards<usize, 2>,
    heap: Mutex<()>,
}

impl Pool {
    /// With free blocks in the first shard.
    fn with(blocks: usize) -> Arc<Self> {
        let pool = Self {
            shards: Shards::new(1),
            heap: Mutex::new(()),
        };
        pool.shards.lock(0).free[0].extend(0..blocks);
        Arc::new(pool)
    }

    /// What `Shared::take_class` does before it carves.
    fn take(&self, shard: usize) -> Option<usize> {
        let own = self.shards.lock(shard).free[0].pop();
        own.or_else(|| self.shards.steal(&mut *self.heap.lock(), shard, 0))
    }

    fn give(&self, shard: usize, block: usize) {
        self.shards.lock(shard).free[0].push(block);
    }

    /// What `Shared::coalesce` begins with.
    fn take_all(&self) -> Vec<usize> {
        self.shards.take_all(&mut *self.heap.lock(), 0)
    }
}

#[test]
fn who_needs_a_free_block_finds_it_and_has_it_alone() {
    model(|| {
        let pool = Pool::with(3);
        let takers = [1, 1, 0].map(|shard| {
            let pool = Arc::clone(&pool);
            move || pool.take(shard).expect("there are as many as takers")
        });
        let [first, second, third] = takers;
        let others = [thread::spawn(first), thread::spawn(second)];
        let mut taken = vec![third()];
        taken.extend(others.map(|other| other.join().unwrap()));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    });
}

#[test]
fn a_trim_sees_every_block_that_no_buffer_has() {
    model(|| {
        let pool = Pool::with(4);
        let its = Arc::clone(&pool);
        let buffer = thread::spawn(move || its.take(1));
        let mut all = pool.take_all();
        let taken = buffer.join().unwrap();
        all.extend(taken);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    });
}

#[test]
fn a_block_given_back_beside_a_theft_and_a_trim_is_not_lost() {
    model(|| {
        let pool = Pool::with(3);
        let its = Arc::clone(&pool);
        let buffer = thread::spawn(move || {
            if let Some(block) = its.take(1) {
                its.give(1, block);
            }
        });
        let mut all = pool.take_all();
        buffer.join().unwrap();
        all.extend(pool.take_all());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}
