//! Finds the intervals that are running at a time, for increasing times.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

#[derive(Default)]
pub(super) struct Running {
    /// `(start, end, index)` of intervals that have not begun; the next one is at the top.
    waiting: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// `(start, index)`.
    active: BTreeSet<(u64, usize)>,
    /// `(end, start, index)` of the active intervals.
    ends: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

impl Running {
    pub(super) fn push(&mut self, start: u64, end: u64, index: usize) {
        self.waiting.push(Reverse((start, end, index)));
    }

    /// The intervals that run at a time, borders included, as `(start, index)`. The one that began last comes first.
    pub(super) fn at(&mut self, time: u64) -> impl Iterator<Item = (u64, usize)> + '_ {
        while let Some(&Reverse((start, end, index))) = self.waiting.peek()
            && start <= time
        {
            self.waiting.pop();
            self.active.insert((start, index));
            self.ends.push(Reverse((end, start, index)));
        }
        while let Some(&Reverse((end, start, index))) = self.ends.peek()
            && end < time
        {
            self.ends.pop();
            self.active.remove(&(start, index));
        }
        self.active.iter().rev().copied()
    }
}
