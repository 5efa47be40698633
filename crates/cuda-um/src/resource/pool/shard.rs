//! Free blocks, kept apart so that threads seldom meet.

use crate::sync::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many there are in a pool. More threads share them.
pub(crate) const SHARDS: usize = 16;

/// Free blocks of a pool; a thread uses those of one shard, and of others where that has none.
pub(crate) struct Shards<B, const N: usize = SHARDS>([Shard<B>; N]);

/// On cache lines of its own.
#[repr(align(128))]
struct Shard<B>(Mutex<Blocks<B>>);

pub(crate) struct Blocks<B> {
    /// For each class.
    pub(crate) free: Vec<Vec<B>>,
    // Taken here less given back here: the sums over the shards are what buffers own.
    pub(crate) live_buffers: isize,
    pub(crate) live_bytes: isize,
    /// Charged, given back, and not discharged: so that who allocates and frees in turn touches no counter of the pool's.
    pub(crate) spare_bytes: usize,
}

impl<B, const N: usize> Shards<B, N> {
    pub(crate) fn new(classes: usize) -> Self {
        Self(std::array::from_fn(|_| Shard::new(classes)))
    }

    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Blocks<B>> {
        self.0[shard].0.lock()
    }

    /// Locks one after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, Blocks<B>>> {
        (0..N).map(|shard| self.lock(shard))
    }

    /// Takes a free block, from another thread's shard if need be: then half of what that has.
    ///
    /// The heap is locked, so that nobody thinks there are none while they are on their way.
    pub(crate) fn steal<H>(&self, _heap: &mut H, own: usize, class: usize) -> Option<B> {
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
    pub(crate) fn take_all<H>(&self, _heap: &mut H, class: usize) -> Vec<B> {
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
/// The shard that this thread uses, in every pool.
pub(crate) fn own() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(usize::MAX) });
    // While the thread ends it has none.
    let own = OWN.try_with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    });
    own.unwrap_or(0)
}
