//! Limits on memory: on a GPU, other processes need memory too.

use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;
/// Managed, device and pinned memory together.
pub const CAP_BYTES: usize = 1 << 30;
/// The memory that each of the three pools may allocate from CUDA.
pub const POOL_BYTES: usize = 256 * MIB;
/// The memory of buffers without a pool.
pub const UNPOOLED_BYTES: usize = 192 * MIB;
/// The pinned memory for staging.
pub const RING_BYTES: usize = 24 * MIB;
const _: () = assert!(3 * POOL_BYTES + UNPOOLED_BYTES + RING_BYTES <= CAP_BYTES);

/// The remaining memory for buffers without a pool.
pub struct Budget(AtomicUsize);

/// A part of the budget, until it is dropped: after its buffer.
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
