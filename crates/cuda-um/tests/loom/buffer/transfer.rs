//! The staging of copies, with copies cut as the models need it.

mod plan;
mod staging;
mod workers_alone;

#[path = "../../../src/buffer/transfer/options.rs"]
mod options;
#[path = "../../../src/buffer/transfer/request.rs"]
mod request;
#[path = "../../../src/buffer/transfer/ring.rs"]
mod ring;
#[path = "../../../src/buffer/transfer/staged.rs"]
mod staged;
#[path = "../../../src/buffer/transfer/transfers.rs"]
mod transfers;
#[path = "../../../src/buffer/transfer/workers.rs"]
mod workers;

pub(crate) use request::{Direction, Host, Staged};
pub(crate) use staged::copy;
pub(crate) use transfers::Transfers;

use crate::context::device::DeviceState;

/// No memory of the models' is registered.
fn is_pageable(_: &DeviceState, _: *const u8) -> bool {
    true
}

/// Which instructions copy is no matter here.
mod streaming {
    pub(super) const FROM: usize = usize::MAX;

    #[allow(unsafe_code, reason = "as the library declares it")]
    /// # Safety
    ///
    /// None: no copy is so large.
    pub(super) unsafe fn copy(_: *const u8, _: *mut u8, _: usize) {
        unreachable!("no copy is so large")
    }
}
