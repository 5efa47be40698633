//! Free blocks, with the work that still uses them.
#![allow(unsafe_code, reason = "passes the addresses of blocks to CUDA")]

use crate::context::tracker::InFlight;
use crate::driver::Api;
use crate::error::Result;
use crate::resource::block::Address;
use crate::resource::pool::advised::Advised;
use std::ops::Range;
use std::ptr::NonNull;

/// Memory of a slab that no buffer owns.
pub(crate) struct FreeBlock {
    pub(super) address: Address,
    /// Uses by the former owners' work; `None` for most blocks.
    pub(super) in_flight: Option<Box<InFlight>>,
    /// True if pages of managed memory may not be on the device.
    pub(super) is_away: bool,
    /// The departures of small blocks that the pool had counted when this one became free.
    pub(super) departures: u64,
}

impl Address {
    /// The address `bytes` further, in the same slab.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        // The address is within a slab, so it is never null.
        let offset = |from: NonNull<u8>| NonNull::new(from.as_ptr().wrapping_add(bytes));
        Self {
            host: offset(self.host).unwrap_or(self.host),
            device: self.device.and_then(offset),
            slab: self.slab,
        }
    }
}

impl FreeBlock {
    /// Uses by the former owners' work.
    pub(super) fn left(self) -> InFlight {
        self.in_flight.map_or_else(InFlight::default, |left| *left)
    }

    pub(super) fn at(&self) -> usize {
        self.address.host.as_ptr().addr()
    }

    /// Undoes advice for a range that began in a block of the same slab.
    pub(super) fn undo(&self, api: &Api, ordinal: u32, advised: &Advised) -> Result<()> {
        let start = self.address.host.as_ptr();
        let Range { start: from, end } = advised.range.clone();
        let range = start.with_addr(from)..start.with_addr(end);
        // SAFETY: the range was checked when the advice was set for a buffer in this block's slab. The slab is live managed memory: it is
        // freed only when all its blocks are free, and this one is not.
        unsafe { api.advise(ordinal, range, advised.undo(), advised.location) }
    }
}
