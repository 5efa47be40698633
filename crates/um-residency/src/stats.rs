//! Counters of an arena.

use crate::entry::Entry;

/// What an [`Arena`](crate::Arena) did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Working sets that were granted.
    pub sets: u64,
    /// Buffers of working sets that were in the arena already.
    pub hits: u64,
    /// Buffers of working sets that were not.
    pub misses: u64,
    /// Bytes that were transferred to the arena.
    pub in_bytes: u64,
    /// Bytes that were written back.
    pub out_bytes: u64,
    /// Bytes in the arena now, in whole slots.
    pub resident_bytes: u64,
    /// The maximum of `resident_bytes` so far.
    pub peak_bytes: u64,
    /// Sets that waited for guards of other threads.
    pub waits: u64,
    /// The sets in the repeated order that the arena follows; 0 if it follows none.
    pub followed: u64,
}

/// A change of the contents of the arena.
pub(crate) enum Change {
    /// A transfer from the home.
    In,
    /// Slots were taken without a transfer.
    Claim,
    /// A transfer to the home.
    Out,
    /// The slots became free.
    Drop,
}

impl Stats {
    pub(crate) fn note(&mut self, change: Change, entry: &Entry) {
        let (bytes, slots) = (entry.bytes as u64, entry.slot_count());
        let whole = (slots * um_backend::cuda_um::resource::DeviceArena::SLOT_BYTES) as u64;
        match change {
            Change::In => self.in_bytes += bytes,
            Change::Out => self.out_bytes += bytes,
            Change::Claim => {}
            Change::Drop => self.resident_bytes -= whole,
        }
        if matches!(change, Change::In | Change::Claim) {
            self.resident_bytes += whole;
            self.peak_bytes = self.peak_bytes.max(self.resident_bytes);
        }
    }
}
