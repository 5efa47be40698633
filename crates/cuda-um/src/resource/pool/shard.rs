//! Free blocks in shards, so that threads seldom contend for a lock.

use crate::sync::{Mutex, MutexGuard};

pub(super) use crate::context::device::SHARDS;

/// Free blocks of a pool. A thread uses the blocks of one shard, and takes from others if that shard has none.
pub(super) struct Shards<B, const N: usize = SHARDS>([Shard<B>; N]);

/// Aligned, so that each shard has its own cache lines.
#[repr(align(128))]
struct Shard<B>(Mutex<Blocks<B>>);

pub(super) struct Blocks<B> {
    /// The free blocks of each class.
    pub(super) free: Vec<Vec<B>>,
    // Blocks taken from this shard minus blocks returned to it: the sums over the shards are the live blocks of buffers.
    pub(super) live_buffers: isize,
    pub(super) live_bytes: isize,
    /// Bytes that are charged, returned, and not yet discharged: a thread that allocates and frees in turn touches no counter of the pool.
    pub(super) spare_bytes: usize,
}

impl<B, const N: usize> Shards<B, N> {
    pub(super) fn new(classes: usize) -> Self {
        Self(std::array::from_fn(|_| Shard::new(classes)))
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Blocks<B>> {
        self.0[shard].0.lock()
    }

    /// Locks one shard after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, Blocks<B>>> {
        (0..N).map(|shard| self.lock(shard))
    }

    /// Takes a free block from this shard or, if it has none, half of the free blocks of another shard.
    ///
    /// The heap is locked, so that no thread finds the shards empty while blocks move between them.
    pub(super) fn steal<H>(&self, _heap: &mut H, own: usize, class: usize) -> Option<B> {
        if let Some(block) = self.lock(own).free[class].pop() {
            return Some(block);
        }
        let others = (1..N).map(|step| (own + step) % N);
        for other in others {
            let mut half = {
                let free = &mut self.lock(other).free[class];
                free.split_off(free.len() / 2)
            };
            if let Some(block) = half.pop() {
                self.lock(own).free[class].append(&mut half);
                return Some(block);
            }
        }
        None
    }

    /// Takes all free blocks of a class. The heap is locked, as for `steal`.
    pub(super) fn take_all<H>(&self, _heap: &mut H, class: usize) -> Vec<B> {
        let mut all = Vec::new();
        for mut shard in self.iter() {
            all.append(&mut shard.free[class]);
        }
        all
    }
}

impl<B> Shard<B> {
    fn new(classes: usize) -> Self {
        let mut free = Vec::new();
        free.resize_with(classes, Vec::new);
        Self(Mutex::new(Blocks {
            free,
            live_buffers: 0,
            live_bytes: 0,
            spare_bytes: 0,
        }))
    }
}
