//! What [`Filter::Auto`](super::Filter::Auto) has learned about searches in 8 bits.

use crate::error::Result;
use cuda_um::{Device, DeviceBuffer};

/// Launches in half precision after one in 8 bits that left too many targets for a query.
const PATIENCE: u32 = 15;
/// The attempts so far.
#[derive(Debug)]
pub(super) struct Attempts {
    /// Fallback queries, candidates and exact scores of all attempts.
    pub sums: DeviceBuffer<u64>,
    /// The same, on the host: each attempt reads them.
    pub seen: [u64; 3],
    /// Queries that were then filtered in half precision; they are also in `seen`.
    pub again: u64,
    /// Launches to come in half precision.
    patience: u32,
}

impl Attempts {
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            sums: DeviceBuffer::zeroed(device, 3)?,
            seen: [0; 3],
            again: 0,
            patience: 0,
        })
    }

    /// The next launches use half precision.
    pub fn have_failed(&mut self) {
        self.patience = PATIENCE;
    }

    /// True if the next launch of many begins in 8 bits.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.patience == 0;
        self.patience = self.patience.saturating_sub(1);
        is_due
    }
}
