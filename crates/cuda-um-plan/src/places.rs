//! Free places with the transfer that leaves each of them.

use crate::Slots;
use std::collections::BTreeMap;

/// The end and the transfer of each place, by its first slot. A place that was taken as it is stays, without a transfer: the next one
/// that leaves it is often the same.
pub(crate) struct Places<T>(BTreeMap<u64, (u64, Option<T>)>);

impl<T: Copy> Places<T> {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A transfer leaves a place, which was taken before.
    pub(crate) fn leave(&mut self, slots: Slots, transfer: T) {
        self.0.insert(slots.first, (slots.end(), Some(transfer)));
    }

    /// Takes a range, and calls a function with each transfer that leaves a part of it.
    pub(crate) fn take(&mut self, slots: Slots, mut found: impl FnMut(T)) {
        let (first, end) = (slots.first, slots.end());
        if let Some((stop, transfer)) = self.0.get_mut(&first)
            && *stop == end
        {
            transfer.take().into_iter().for_each(found);
            return;
        }
        while let Some((&start, &(stop, transfer))) = self.0.range(..end).next_back() {
            if stop <= first {
                break;
            }
            transfer.into_iter().for_each(&mut found);
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, (first, transfer));
            }
            if stop > end {
                self.0.insert(end, (stop, transfer));
            }
        }
    }
}
