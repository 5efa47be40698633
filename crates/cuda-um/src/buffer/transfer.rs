//! Copies between the device and pageable memory of the host, through pinned memory that the library owns.
//!
//! The driver stages such copies on one thread. Here several threads fill (or empty) chunks of a ring of pinned memory while the
//! copy engine moves the others, so that a large copy runs at the speed of the link. A copy to the device returns when its source is
//! in the ring: what uses the buffer comes after it on the device.

mod on_host;
mod options;
mod plan;
mod predict;
mod request;
mod ring;
mod staged;
mod streaming;
mod transfers;
mod workers;
// Not in `workers`: `tests/loom` compiles that with other locks.
#[cfg(test)]
mod workers_tests;

pub(crate) use crate::buffer::transfer::on_host::copy_on_host;
pub use crate::buffer::transfer::options::TransferOptions;
pub(crate) use crate::buffer::transfer::request::{Direction, Host, Staged};
pub(crate) use crate::buffer::transfer::staged::copy;
pub(crate) use crate::buffer::transfer::transfers::Transfers;

use crate::context::device::{Device, DeviceState};

/// Whether CUDA knows nothing of the memory at this address: a copy from or to it is staged by somebody.
pub(crate) fn is_pageable(device: &DeviceState, address: *const u8) -> bool {
    // An older runtime says "invalid value" of memory that it does not know.
    device
        .api
        .is_registered(device.ordinal, address)
        .map_or(true, |registered| !registered)
}

impl Device {
    /// Sets how copies from and to pageable memory are staged, for all handles of this device, from the next copy on. A copy that is running
    /// keeps its options, so this may be called in the closure of `host_overwrite`. The pinned memory of before is freed once no copy uses
    /// it: this waits for copies to the device that have not arrived. Does nothing in a child made by `fork`, which cannot copy.
    pub fn set_transfer_options(&self, options: TransferOptions) {
        if !self.api().origin.is_inherited() {
            Transfers::of(self.state()).configure(options);
        }
    }
}
