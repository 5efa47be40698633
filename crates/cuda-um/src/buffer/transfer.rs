//! Copies between a device and pageable host memory, through pinned memory that the library owns.
//!
//! A small copy goes through a piece of it that no other copy uses (`piece.rs`). The driver stages large copies on one thread. Here several
//! threads fill (or empty) chunks of a ring of pinned memory while the copy engine moves the others, so a large copy runs at the speed of the
//! link. In between, one thread does as well: the driver's to an idle stream, the caller's with the ring otherwise. A copy to the device returns
//! when its source is in pinned memory, or, by the driver, on the device; later uses of the buffer are ordered after it.

mod copies;
mod job;
#[cfg(all(test, cuda_um_loom))]
#[path = "../../tests/loom/transfer/mod.rs"]
mod models;
mod options;
mod piece;
mod plan;
mod reading;
mod ring;
mod staging_memory;
mod streaming;
mod transfers;
mod workers;

pub(crate) use crate::buffer::transfer::copies::{Direction, Staged, copy_on_host};
pub(crate) use crate::buffer::transfer::job::{Job, Piece};
pub use crate::buffer::transfer::options::TransferOptions;
pub(crate) use crate::buffer::transfer::piece::with_host;
pub(crate) use crate::buffer::transfer::transfers::Transfers;

use crate::context::device::Device;
use crate::context::reclaim::Which;

impl Device {
    /// Sets the options for copies from and to pageable memory, for all handles of this device, from the next copy on. A copy that is
    /// running keeps its options, so the closure of `host_overwrite` may call this.
    ///
    /// # Ordering
    ///
    /// Waits for copies to the device that have not arrived, because it frees the earlier pinned memory. If a copy still uses the ring, the
    /// end of that copy frees it.
    pub fn set_transfer_options(&self, options: TransferOptions) {
        Transfers::of(self.state()).configure(options);
    }

    /// Returns the memory that the library keeps for this device to CUDA: the free memory of the [default pools](Self::pool), and the
    /// pinned memory for copies. Later buffers and copies allocate it again. Returns the bytes of the pools.
    ///
    /// # Ordering
    ///
    /// Waits until memory that was dropped in use is free, imports included, and for copies to the device that have not arrived.
    #[doc(alias = "empty_cache")]
    #[doc(alias = "cudaMemPoolTrimTo")]
    pub fn trim(&self) -> usize {
        let trimmed = self.trim_pools();
        let _ = self.state().reclaim.flush(Which::All);
        Transfers::of(self.state()).free();
        trimmed
    }
}
