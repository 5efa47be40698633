//! When pages left the places of an arena without slots.

use std::collections::BTreeMap;
use std::ops::Range;

use um_backend::cuda_um::{self, Event, Stream};

/// The last departure of pages from each slot: pages that come to the slot come after it, so the device never has both.
#[derive(Default)]
pub(crate) struct Departures {
    /// Counts departures.
    count: u64,
    of_slot: BTreeMap<usize, (u64, Event)>,
}

impl Departures {
    pub(crate) fn add(&mut self, slots: Range<usize>, end: &Event) {
        self.count += 1;
        self.of_slot
            .extend(slots.map(|slot| (slot, (self.count, end.clone()))));
    }

    /// Orders later work on the stream after the departures from these slots.
    pub(crate) fn order(&self, slots: &Range<usize>, stream: &Stream) -> cuda_um::Result<()> {
        let mut last = 0;
        for (number, end) in self.of_slot.range(slots.clone()).map(|(_, last)| last) {
            if std::mem::replace(&mut last, *number) != *number {
                stream.wait(end)?;
            }
        }
        Ok(())
    }
}
