//! Counters of an arena, and the log of a pass.

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
    /// Bytes of homes that steps read in place, over the link.
    pub in_place_bytes: u64,
    /// Bytes in the arena now, in whole slots.
    pub resident_bytes: u64,
    /// The maximum of `resident_bytes` so far.
    pub peak_bytes: u64,
    /// Sets that waited for guards of other threads.
    pub waits: u64,
}

/// A change of the contents of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A transfer from the home.
    In,
    /// Slots were taken without a transfer.
    Claim,
    /// A transfer to the home.
    Out,
    /// The slots became free.
    Drop,
    /// The step reads the home in place. There are no slots.
    InPlace,
}

/// A line of the log: [`Report::changes`](crate::Report::changes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedChange {
    /// The step of the pass before which, or in which, it happened.
    pub step: usize,
    /// What happened.
    pub change: Change,
    /// The buffer's name.
    pub buffer: std::sync::Arc<str>,
    /// The buffer's slots.
    pub slots: std::ops::Range<usize>,
}

/// The counters, and the log while a pass is recorded or run.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) stats: Stats,
    pub(crate) log: Option<Vec<LoggedChange>>,
    pub(crate) step: usize,
}

impl Counters {
    pub(crate) fn note(&mut self, change: Change, entry: &Entry) {
        let (bytes, mut slots) = (entry.bytes as u64, entry.slots());
        let whole = (slots.len() * um_backend::cuda_um::resource::DeviceArena::SLOT_BYTES) as u64;
        let stats = &mut self.stats;
        match change {
            Change::In => stats.in_bytes += bytes,
            Change::Out => stats.out_bytes += bytes,
            Change::Claim => {}
            Change::Drop => stats.resident_bytes -= whole,
            Change::InPlace => {
                stats.in_place_bytes += bytes;
                slots = 0..0;
            }
        }
        if matches!(change, Change::In | Change::Claim) {
            stats.resident_bytes += whole;
            stats.peak_bytes = stats.peak_bytes.max(stats.resident_bytes);
        }
        if let Some(log) = &mut self.log {
            log.push(LoggedChange {
                step: self.step,
                change,
                buffer: std::sync::Arc::clone(&entry.name),
                slots,
            });
        }
    }
}
