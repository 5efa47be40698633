//! Free blocks, kept apart so that threads seldom meet.

use super::block::FreeBlock;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many there are in a pool. More threads share them.
pub(super) const SHARDS: usize = 16;

/// On cache lines of its own.
#[repr(align(128))]
pub(super) struct Shard(Mutex<Blocks>);

pub(super) struct Blocks {
    /// For each class.
    pub(super) free: Vec<Vec<FreeBlock>>,
    // Taken here less given back here: the sums over the shards are what buffers own.
    pub(super) live_buffers: isize,
    pub(super) live_bytes: isize,
    /// Charged, given back, and not discharged: so that who allocates and frees in turn touches no counter of the pool's.
    pub(super) spare_bytes: usize,
}

impl Shard {
    pub(super) fn new(classes: usize) -> Self {
        let mut free = Vec::new();
        free.resize_with(classes, Vec::new);
        Self(Mutex::new(Blocks {
            free,
            live_buffers: 0,
            live_bytes: 0,
            spare_bytes: 0,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock()
    }
}

/// The shard that this thread uses, in every pool.
pub(super) fn own() -> usize {
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
