//! Free places of the arena.

use crate::Slots;
use std::collections::BTreeSet;

/// Before the first step of the pass.
pub(crate) const START: i64 = -1;

/// Larger places that are compared.
const COMPARED: usize = 16;

/// A free place, and the step at whose end it became free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hole {
    pub first: u64,
    pub count: u64,
    pub freed: i64,
}

impl Hole {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// The free places in order of their addresses. Adjacent places stay apart, because they became free at different times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    all: Vec<Hole>,
    /// By size, then by time: a size, a time and the first slot.
    sizes: BTreeSet<(u64, i64, u64)>,
}

impl Holes {
    pub(crate) fn all(&self) -> &[Hole] {
        &self.all
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.sizes.clear();
    }

    pub(crate) fn add(&mut self, slots: Slots, freed: i64) {
        if slots.count == 0 {
            return;
        }
        let at = self.all.partition_point(|hole| hole.first < slots.first);
        let (first, count) = (slots.first, slots.count);
        self.insert(
            at,
            Hole {
                first,
                count,
                freed,
            },
        );
        // A place that is in two pieces with one time is one place again.
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    fn join(&mut self, at: usize) {
        if let (Some(&one), Some(&next)) = (self.all.get(at), self.all.get(at + 1))
            && one.end() == next.first
            && one.freed == next.freed
        {
            self.remove(at + 1);
            self.remove(at);
            let count = one.count + next.count;
            self.insert(at, Hole { count, ..one });
        }
    }

    fn insert(&mut self, at: usize, hole: Hole) {
        self.sizes.insert((hole.count, hole.freed, hole.first));
        self.all.insert(at, hole);
    }

    fn remove(&mut self, at: usize) {
        let hole = self.all.remove(at);
        self.sizes.remove(&(hole.count, hole.freed, hole.first));
    }

    /// A free range of `count` slots that became free before the step `before`: one that fits exactly if there is one, otherwise
    /// a part of a larger one, otherwise several that are adjacent. Among equals the one that has been free for the longest time.
    pub(crate) fn find(&self, count: u64, before: i64) -> Option<Slots> {
        let exact = (count, START, 0)..(count, before, 0);
        let larger = (count + 1, START, 0)..;
        let mut found = self.sizes.range(exact).take(1);
        let mut larger = self.sizes.range(larger).take(COMPARED);
        let whole = found.next().or_else(|| larger.find(|hole| hole.1 < before));
        match whole {
            Some(&(_, _, first)) => Some(Slots { first, count }),
            None => self.find_adjacent(count, before),
        }
    }

    fn find_adjacent(&self, count: u64, before: i64) -> Option<Slots> {
        let (mut begin, mut end) = (0, 0);
        for hole in &self.all {
            if hole.freed >= before {
                continue;
            }
            if hole.first != end {
                begin = hole.first;
            }
            end = hole.end();
            if end - begin >= count {
                let first = begin;
                return Some(Slots { first, count });
            }
        }
        None
    }

    /// Takes a range, which must be free, and returns the last time that a part of it became free.
    pub(crate) fn take(&mut self, slots: Slots) -> i64 {
        let mut freed = START;
        let mut at = self.all.partition_point(|hole| hole.end() <= slots.first);
        while let Some(&hole) = self.all.get(at) {
            if hole.first >= slots.end() {
                break;
            }
            freed = freed.max(hole.freed);
            self.remove(at);
            for (first, end) in [(hole.first, slots.first), (slots.end(), hole.end())] {
                if first < end {
                    let count = end - first;
                    let freed = hole.freed;
                    self.all.insert(
                        at,
                        Hole {
                            first,
                            count,
                            freed,
                        },
                    );
                    at += 1;
                }
            }
        }
        freed
    }

    /// The last time that a part of the range became free. The range may have parts that are in use.
    pub(crate) fn freed(&self, slots: Slots) -> i64 {
        let from = self.all.partition_point(|hole| hole.end() <= slots.first);
        let parts = self.all[from..].iter();
        let parts = parts.take_while(|hole| hole.first < slots.end());
        parts.map(|hole| hole.freed).max().unwrap_or(START)
    }
}
