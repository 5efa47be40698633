//! How much memory there may be at a time: on a GPU, others need it too.

use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;
/// Of managed, device and pinned memory together.
pub const CAP_BYTES: usize = 1 << 30;
/// What each of the three pools may take from CUDA.
pub const POOL_BYTES: usize = 256 * MIB;
/// What buffers of no pool may take.
pub const UNPOOLED_BYTES: usize = 192 * MIB;
/// What staging may pin.
pub const RING_BYTES: usize = 24 * MIB;
const _: () = assert!(3 * POOL_BYTES + UNPOOLED_BYTES + RING_BYTES <= CAP_BYTES);

/// What is left for buffers of no pool.
pub struct Budget(AtomicUsize);

/// A part of it, until it is dropped: after the buffer that it is for.
pub struct Charge<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub fn new() -> Self {
        Self(AtomicUsize::new(UNPOOLED_BYTES))
    }

    pub fn charge(&self, bytes: usize) -> Option<Charge<'_>> {
        let left = |left: usize| left.checked_sub(bytes);
        let charged = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        charged.is_ok().then_some(Charge {
            budget: self,
            bytes,
        })
    }

    pub fn live_bytes(&self) -> usize {
        UNPOOLED_BYTES - self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}
