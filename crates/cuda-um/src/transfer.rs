//! Copies between the device and pageable memory of the host, through pinned memory that the library owns.
//!
//! The driver stages such copies on one thread. Here several threads fill (or empty) chunks of a ring of pinned memory while the
//! copy engine moves the others, so that a large copy runs at the speed of the link. A copy to the device returns when its source is
//! in the ring: what uses the buffer comes after it on the device.

mod on_host;
mod options;
mod plan;
mod predict;
mod ring;
mod staged;
mod streaming;
mod workers;
// Not in `workers`: `tests/loom` compiles that with other locks.
#[cfg(test)]
mod workers_tests;

pub(crate) use on_host::copy_on_host;
pub use options::TransferOptions;
pub(crate) use staged::{Direction, Host, Staged, copy};

use crate::device::DeviceState;
use crate::sync::Mutex;
use ring::Ring;

/// What the transfers of one device share.
#[derive(Default)]
pub(crate) struct Transfers {
    options: Mutex<TransferOptions>,
    /// It serves one copy at a time: they share one link anyway.
    ring: Mutex<Ring>,
}

impl Transfers {
    /// Waits for a copy that is running; the ring is freed, and made anew as copies need it.
    pub(crate) fn configure(&self, options: TransferOptions) {
        let mut ring = self.ring.lock();
        *self.options.lock() = options;
        *ring = Ring::new(options);
    }

    /// How many threads copy at most. Does not wait for a copy.
    fn threads(&self) -> usize {
        self.options.lock().threads
    }
}

/// Whether CUDA knows nothing of the memory at this address: a copy from or to it is staged by somebody.
pub(crate) fn is_pageable(device: &DeviceState, address: *const u8) -> bool {
    // An older runtime says "invalid value" of memory that it does not know.
    device
        .api
        .is_registered(device.ordinal, address)
        .map_or(true, |registered| !registered)
}
